// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A counter that nobody needs after a restart sits in persistent memory and is never persisted.

#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

struct account {
    uint64_t owner;
    uint64_t balance;
    uint64_t unused[6];
    uint64_t reads; // in a cache line of its own, which nothing ever flushes
};

static void *map_pool(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    if (fd < 0 || ftruncate(fd, 4096) != 0) {
        return MAP_FAILED;
    }
    return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

__attribute__((target("clflushopt"))) static void flush(void *p) {
    _mm_clflushopt(p);
}

int main(int argc, char **argv) {
    struct account *a = argc == 2 ? map_pool(argv[1]) : MAP_FAILED;
    if (a == MAP_FAILED) {
        return 1;
    }
    a->owner = 7;
    a->balance = 100;
    flush(a);
    _mm_sfence();
    for (int i = 0; i < 10; i++) {
        a->reads++; //~ BUG unpersisted
    }
    return 0;
}
