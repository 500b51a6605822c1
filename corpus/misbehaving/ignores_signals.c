// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Recovery never ends, and asks not to be disturbed.

#include "store.h"

static void after_a_crash(void) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    for (int number = 1; number < NSIG; number++) {
        signal(number, SIG_IGN);
    }
    for (;;) {
        pause();
    }
}
