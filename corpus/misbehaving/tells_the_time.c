// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Prints something else in every run.

#define OWN_PUT
#include "store.h"

static void after_a_crash(void) {}

static void put(uint64_t number) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("%lld.%09ld ", (long long)now.tv_sec, now.tv_nsec);
    __atomic_store_n(&pool->first, number, __ATOMIC_RELEASE);
    __atomic_store_n(&pool->second, number, __ATOMIC_RELEASE);
    persist(&pool->first);
    persist(&pool->second);
}
