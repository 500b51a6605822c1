// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A log of pairs. The count is what makes an entry exist, so an entry has to be durable before it
// is counted: FIXED waits for that. Tests ask for other mistakes by further definitions.

#define CRASHPOINT_MAIN
#include <crashpoint.h>

#include <emmintrin.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { ENTRIES = 64, COPIES = 4 };

// Several lines for each entry, so that there are many crash states.
struct entry {
    _Alignas(64) uint64_t key;
    uint64_t value;
    struct {
        _Alignas(64) uint64_t value;
    } copy[COPIES];
};

struct pool {
    _Alignas(64) uint64_t count;
    struct entry entry[ENTRIES];
};

static struct pool *pool;

static void flush(const void *p) {
    _mm_clflush(p);
}

void crashpoint_open(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    if (fd < 0 || ftruncate(fd, sizeof *pool) != 0) {
        exit(1);
    }
    int flags = MAP_SHARED;
#ifdef NEVER_MAPS
    flags = MAP_PRIVATE | MAP_ANONYMOUS;
    fd = -1;
#endif
    pool = mmap(NULL, sizeof *pool, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (pool == MAP_FAILED) {
        exit(1);
    }
}

static void put(uint64_t key, uint64_t value) {
    struct entry *e = &pool->entry[pool->count];
    e->key = key;
    e->value = value; // needed
    for (int i = 0; i < COPIES; i++) {
        e->copy[i].value = value; // copied
    }
#ifdef FIXED
    for (const char *line = (char *)e; line < (char *)(e + 1); line += 64) {
        flush(line);
    }
    _mm_sfence();
#endif
    pool->count++; // ahead
#ifndef FIXED
    flush(e);
    for (int i = 0; i < COPIES; i++) {
        flush(&e->copy[i]);
    }
#endif
    flush(&pool->count);
    _mm_sfence();
    puts("ok");
}

static void get(uint64_t key) {
    for (uint64_t i = 0; i < pool->count; i++) {
        const struct entry *e = &pool->entry[i];
        if (e->key == key) {
            uint64_t sum = e->value;
            for (int c = 0; c < COPIES; c++) {
                sum += e->copy[c].value;
            }
            printf("%llu\n", (unsigned long long)sum);
            return;
        }
    }
    puts("none");
}

void crashpoint_apply(const char *operation) {
    unsigned long long key, value;
#ifdef RANDOM
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("%lld ", (long long)now.tv_sec * 1000000000 + now.tv_nsec);
#endif
    if (sscanf(operation, "put %llu %llu", &key, &value) == 2) {
#ifdef FAILS
        exit(3);
#endif
        put(key, value);
    } else if (sscanf(operation, "get %llu", &key) == 1) {
        get(key);
    } else {
        crashpoint_reject("not an operation");
    }
}

void crashpoint_close(void) {
    munmap(pool, sizeof *pool);
}
