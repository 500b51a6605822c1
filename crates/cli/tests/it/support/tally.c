// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Numbers and a count of them. FIXED makes a number durable; otherwise only the count is. Tests ask
// for other mistakes by further definitions.

#define CRASHPOINT_MAIN
#include <crashpoint.h>

#include <emmintrin.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { NUMBERS = 64 };

struct pool {
    _Alignas(64) uint64_t count;
    struct {
        _Alignas(64) uint64_t value;
    } number[NUMBERS];
};

static struct pool *pool;

void crashpoint_open(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    if (fd < 0 || ftruncate(fd, sizeof *pool) != 0) {
        exit(1);
    }
    pool = mmap(NULL, sizeof *pool, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (pool == MAP_FAILED) {
        exit(1);
    }
#ifdef GREETS
    printf("recovered by process %d\n", (int)getpid());
#endif
    // What a number that is counted and not there makes of recovery.
    for (uint64_t i = 0; i < pool->count; i++) {
        while (pool->number[i].value == 0) {
#if defined PRINTS_WITHOUT_END
            puts("waiting");
#elif defined SPINS
            __asm__ volatile("pause");
#elif defined SLEEPS
            pause();
#else
            break;
#endif
        }
    }
}

void crashpoint_apply(const char *operation) {
    unsigned long long value;
    if (sscanf(operation, "add %llu", &value) != 1) {
        crashpoint_reject("not an operation");
    }
    uint64_t *number = &pool->number[pool->count].value;
    *number = value;
#ifdef FIXED
    _mm_clflush(number);
    _mm_sfence();
#endif
    pool->count++;
    _mm_clflush(&pool->count);
    _mm_sfence();
    puts("ok");
}

void crashpoint_close(void) {
    munmap(pool, sizeof *pool);
}
