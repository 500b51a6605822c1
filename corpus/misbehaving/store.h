// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A store of one number that is kept twice, the two copies made durable one after the other: a
// crash between them is what the programs of this folder misbehave on.
//
//   put N    stores N, prints `ok`
//   get      prints the number

#ifndef MISBEHAVING_STORE_H
#define MISBEHAVING_STORE_H

#define _GNU_SOURCE
#define CRASHPOINT_MAIN
#include <crashpoint.h>

#include <fcntl.h>
#include <immintrin.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { POOL_BYTES = 8192 };

struct pool {
    uint64_t first;
    uint64_t unused[7];
    uint64_t second;
};

static struct pool *pool;
static int pool_file;
static const char *pool_path;

// What the program does where the copies differ. It may return: then recovery goes on.
static void after_a_crash(void);

static void persist(const void *at) {
    _mm_clflush(at);
    _mm_sfence();
}

static struct pool *map_pool(void) {
    void *at = mmap(NULL, POOL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, pool_file, 0);
    if (at == MAP_FAILED) {
        perror(pool_path);
        exit(1);
    }
    return (struct pool *)at;
}

void crashpoint_open(const char *path) {
    pool_path = path;
    pool_file = open(path, O_RDWR | O_CREAT, 0644);
    if (pool_file < 0 || ftruncate(pool_file, POOL_BYTES) != 0) {
        perror(path);
        exit(1);
    }
    pool = map_pool();
    if (pool->first != pool->second) {
        after_a_crash();
        pool->first = pool->second;
        persist(&pool->first);
    }
}

#ifndef OWN_PUT
static void put(uint64_t number) {
    __atomic_store_n(&pool->first, number, __ATOMIC_RELEASE);
    persist(&pool->first);
    __atomic_store_n(&pool->second, number, __ATOMIC_RELEASE);
    persist(&pool->second);
}
#else
static void put(uint64_t number);
#endif

void crashpoint_apply(const char *operation) {
    if (strncmp(operation, "put ", 4) == 0) {
        put(strtoull(operation + 4, NULL, 10));
        puts("ok");
    } else if (strcmp(operation, "get") == 0) {
        printf("%llu\n", (unsigned long long)pool->second);
    } else {
        crashpoint_reject("unknown operation");
    }
}

void crashpoint_close(void) {
    munmap(pool, POOL_BYTES);
    close(pool_file);
}

#endif
