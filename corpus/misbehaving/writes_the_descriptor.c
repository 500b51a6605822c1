// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Changes the pool through its descriptor too, which no flush makes durable.

#define OWN_PUT
#include "store.h"

static void after_a_crash(void) {}

static void put(uint64_t number) {
    uint64_t sum = number * 3;
    if (pwrite(pool_file, &sum, sizeof sum, 4096) != sizeof sum) {
        perror(pool_path);
        exit(1);
    }
    __atomic_store_n(&pool->second, number, __ATOMIC_RELEASE);
    persist(&pool->second);
    __atomic_store_n(&pool->first, number, __ATOMIC_RELEASE);
    persist(&pool->first);
}
