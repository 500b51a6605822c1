// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Two mistakes, and ways to end that tests ask for by a second argument.

#include <emmintrin.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct account {
    _Alignas(64) uint64_t owner;
    uint64_t balance;
    _Alignas(64) uint64_t closed;
};

static void flush(const void *p) {
    _mm_clflush(p);
}

__attribute__((noinline)) static void deposit(struct account *a, uint64_t amount) {
    a->balance += amount;
    flush(&a->balance);
    flush(&a->owner); // extra-flush
    _mm_sfence();
}

static void ended(int signal) {
    _exit(5 + 0 * signal);
}

int main(int argc, char **argv) {
    int fd = argc > 1 ? open(argv[1], O_RDWR | O_CREAT, 0644) : -1;
    if (fd < 0 || ftruncate(fd, 4096) != 0) {
        return 1;
    }
    struct account *a = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (a == MAP_FAILED) {
        return 1;
    }
    const char *how = argc > 2 ? argv[2] : "";
    if (strcmp(how, "close") == 0) {
        for (int i = 0; i < 1024; i++) {
            close(i);
        }
    }
    deposit(a, 100);
    a->closed = 1;
    flush(&a->closed);
    _mm_sfence();
    a->closed = 2; // missing-flush
    if (strcmp(how, "kill") == 0) {
        kill(getpid(), SIGKILL);
    }
    if (strcmp(how, "hang") == 0 || strcmp(how, "wait") == 0) {
        signal(SIGTERM, ended);
        if (strcmp(how, "hang") == 0) {
            fork(); // a timeout must find this one too
        }
        puts("waiting");
        fflush(stdout);
        for (;;) {
            pause();
        }
    }
    return strcmp(how, "fail") == 0 ? 3 : 0;
}
