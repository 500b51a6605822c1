// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Recovery gives up.

#include "store.h"

static void after_a_crash(void) {
    abort();
}
