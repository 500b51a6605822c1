// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Recovery never ends.

#include "store.h"

static void after_a_crash(void) {
    for (volatile int forever = 1; forever;) {
    }
}
