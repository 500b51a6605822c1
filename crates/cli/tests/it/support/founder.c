// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Takes a pool that is there for one that was made, as many programs do; with FIXED, only one that
// says so.

#include <emmintrin.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

struct pool {
    _Alignas(64) uint64_t made;
    _Alignas(64) uint64_t sum;
};

static void persist(const void *p) {
    _mm_clflush(p);
    _mm_sfence();
}

__attribute__((noinline)) static uint64_t add(struct pool *pool, uint64_t value) {
    pool->sum += value;
    persist(&pool->sum);
    return pool->sum;
}

int main(int argc, char **argv) {
    if (argc < 3) return 3;
    int is_there = access(argv[1], F_OK) == 0;
    int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
    if (fd < 0 || ftruncate(fd, 4096) != 0) return 3;
    struct pool *pool = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (pool == MAP_FAILED) return 3;
#ifdef FIXED
    is_there = is_there && pool->made == 1;
#endif
    if (!is_there) {
        pool->sum = 100;
        persist(&pool->sum);
        pool->made = 1;
        persist(&pool->made);
    }
    if (pool->made != 1) {
        fprintf(stderr, "not a pool\n");
        return 1;
    }
    FILE *ops = fopen(argv[2], "r");
    char line[100];
    unsigned long value;
    while (ops && fgets(line, sizeof line, ops)) {
        if (sscanf(line, "add %lu", &value) != 1) continue;
        printf("%lu\n", add(pool, value));
        fflush(stdout);
    }
    return 0;
}
