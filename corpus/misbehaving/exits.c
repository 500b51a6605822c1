// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Recovery refuses the pool.

#include "store.h"

static void after_a_crash(void) {
    fprintf(stderr, "the pool is damaged\n");
    exit(7);
}
