// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A known miss. The balance is never flushed on purpose: it becomes durable only because the
// owner, which lies in the same cache line today, is flushed afterwards. A field added between
// the two would break it. A rule that looks at the states of lines sees a line that was flushed.

#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

struct account {
    uint64_t owner;
    uint64_t balance;
};

__attribute__((target("clflushopt"))) static void persist(void *p) {
    _mm_clflushopt(p);
    _mm_sfence();
}

static void set_balance(struct account *a, uint64_t balance) {
    a->balance = balance; //~ BUG missing-flush
}

static void set_owner(struct account *a, uint64_t owner) {
    a->owner = owner;
    persist(&a->owner);
}

int main(int argc, char **argv) {
    int fd = argc == 2 ? open(argv[1], O_RDWR | O_CREAT, 0644) : -1;
    if (fd < 0 || ftruncate(fd, 4096) != 0) {
        return 1;
    }
    struct account *a = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (a == MAP_FAILED) {
        return 1;
    }
    set_balance(a, 100);
    set_owner(a, 7);
    return 0;
}
