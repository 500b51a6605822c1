// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Recovery starts a process that leaves its group and its session and never ends, and goes on.

#include "store.h"

static void after_a_crash(void) {
    if (fork() == 0) {
        setsid();
        if (fork() != 0) {
            _exit(0);
        }
        signal(SIGTERM, SIG_IGN);
        signal(SIGHUP, SIG_IGN);
        for (;;) {
            pause();
        }
    }
}
