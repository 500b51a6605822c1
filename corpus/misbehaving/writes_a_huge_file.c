// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Recovery writes a file beside the pool, far larger than anybody wants.

#include "store.h"

static char block[1 << 20];

static void after_a_crash(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s.huge", pool_path);
    int file = open(path, O_RDWR | O_CREAT, 0644);
    memset(block, 1, sizeof block);
    // Holes cost nothing: the size is huge, what is written is not.
    for (off_t at = 0; at < (off_t)1 << 42; at += (off_t)1 << 36) {
        if (file < 0 || pwrite(file, block, sizeof block, at) != sizeof block) {
            perror(path);
            abort();
        }
    }
}
