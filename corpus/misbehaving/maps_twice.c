// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Maps the pool a second time and stores one copy of the number there.

#define OWN_PUT
#include "store.h"

static void after_a_crash(void) {
    abort();
}

static void put(uint64_t number) {
    static struct pool *other;
    if (!other) {
        other = map_pool();
    }
    __atomic_store_n(&pool->first, number, __ATOMIC_RELEASE);
    persist(&pool->first);
    __atomic_store_n(&other->second, number, __ATOMIC_RELEASE);
    persist(&other->second);
}
