// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Recovery prints until it is stopped.

#include "store.h"

static void after_a_crash(void) {
    for (;;) {
        puts("recovering, please be patient");
    }
}
