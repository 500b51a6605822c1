// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A known miss. Each append is acknowledged before it is durable, for its flush comes with the
// next append; only closing flushes the last one. At the end of the recording every line is clean,
// so a rule that asks whether a store was ever flushed has nothing to say. It would have to know
// that the printed line is a promise.

#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

struct journal {
    _Alignas(64) uint64_t entry[60][8];
};

static uint64_t *unflushed;

__attribute__((target("clflushopt"))) static void persist_previous(void) {
    if (unflushed) {
        _mm_clflushopt(unflushed);
        _mm_sfence();
    }
    unflushed = NULL;
}

static void append(struct journal *j, unsigned n, uint64_t value) {
    persist_previous();
    j->entry[n][0] = value; //~ BUG missing-flush
    unflushed = j->entry[n];
    printf("appended %u\n", n);
}

int main(int argc, char **argv) {
    int fd = argc == 2 ? open(argv[1], O_RDWR | O_CREAT, 0644) : -1;
    if (fd < 0 || ftruncate(fd, 4096) != 0) {
        return 1;
    }
    struct journal *j = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (j == MAP_FAILED) {
        return 1;
    }
    for (unsigned n = 0; n < 10; n++) {
        append(j, n, n + 1);
    }
    persist_previous();
    return 0;
}
