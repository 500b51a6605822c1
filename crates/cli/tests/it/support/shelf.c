// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Numbers, each with a lock of its own, for several threads. FORGETS leaves the last change to a
// number without a flush; RACES reads a number before and stores it after the lock.

#define _GNU_SOURCE
#define CRASHPOINT_MAIN
#ifndef ALONE
#define CRASHPOINT_THREADS
#endif
#include <crashpoint.h>

#include <emmintrin.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { NUMBERS = 8 };

struct pool {
    struct {
        _Alignas(64) uint64_t value;
    } number[NUMBERS];
};

static struct pool *pool;
static pthread_mutex_t locks[NUMBERS];

void crashpoint_open(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    if (fd < 0 || ftruncate(fd, sizeof *pool) != 0) {
        exit(1);
    }
    pool = mmap(NULL, sizeof *pool, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (pool == MAP_FAILED) {
        exit(1);
    }
    for (int i = 0; i < NUMBERS; i++) {
        pthread_mutex_init(&locks[i], NULL);
    }
#ifdef GREETS
    puts("hello");
#endif
}

static uint64_t load(uint64_t *number) {
    return __atomic_load_n(number, __ATOMIC_RELAXED);
}

// Waits until two threads are here; with one thread there is nobody to wait for.
static void meet(void) {
#ifdef RACES
    static int here;
    if (gettid() == getpid()) {
        return;
    }
    int mine = __atomic_add_fetch(&here, 1, __ATOMIC_ACQ_REL);
    int both = mine + mine % 2;
    while (__atomic_load_n(&here, __ATOMIC_ACQUIRE) < both) {
        sched_yield();
    }
#endif
}

void crashpoint_apply(const char *operation) {
    char name[8];
    unsigned long long at, by = 0;
    if (sscanf(operation, "%7s %llu %llu", name, &at, &by) < 2 || at >= NUMBERS) {
        crashpoint_reject("not an operation");
    }
    uint64_t *number = &pool->number[at].value;
    if (strcmp(name, "get") == 0) {
        printf("%llu\n", (unsigned long long)load(number));
        return;
    }
    uint64_t seen = load(number);
    meet();
    pthread_mutex_lock(&locks[at]);
#ifndef RACES
    seen = load(number);
#endif
    // Twice and a bit more: no two orders come to the same.
    __atomic_store_n(number, strcmp(name, "set") == 0 ? by : 2 * seen + by, __ATOMIC_RELAXED);
#ifndef FORGETS
    _mm_clflush(number);
    _mm_sfence();
#endif
    pthread_mutex_unlock(&locks[at]);
    puts("ok");
}

void crashpoint_close(void) {
#ifdef GREETS
    puts("bye");
#endif
}
