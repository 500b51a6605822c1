// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Transactions by undo log, one at a time. A range is copied into the log, durably, before it
// changes; committing makes the changes durable and then empties the log; a log that is not empty
// when the pool is opened is played back.
//
// The log's own stores (entries, their count) happen in these functions, between begin and commit,
// and are not logged themselves: they are the library's, not updates made in the transaction. The
// functions are kept out of line so that they are seen as calls.

#ifndef CORPUS_UNDO_LOG_H
#define CORPUS_UNDO_LOG_H

#include "pm.h"

enum { UNDO_ENTRIES = 256, UNDO_BYTES = 48 };

// One cache line.
struct undo_entry {
    uint64_t offset;
    uint64_t length;
    char old[UNDO_BYTES];
};

struct undo_log {
    uint64_t count; // entries beyond it mean nothing
    uint64_t unused[7];
    struct undo_entry entry[UNDO_ENTRIES];
};

static struct undo_log *undo;

// Flushes the lines of all logged ranges, each line once though ranges may share it. The caller
// has stored to every range it logged.
static void undo_flush_ranges(void) {
    uintptr_t seen[UNDO_ENTRIES * 2];
    unsigned lines = 0;
    for (uint64_t i = 0; i < undo->count; i++) {
        uintptr_t start = (uintptr_t)pm_at(undo->entry[i].offset);
        uintptr_t end = start + undo->entry[i].length;
        for (uintptr_t line = start & ~(uintptr_t)(PM_LINE - 1); line < end; line += PM_LINE) {
            unsigned k = 0;
            while (k < lines && seen[k] != line) {
                k++;
            }
            if (k == lines) {
                seen[lines++] = line;
                pm_flush_line((const void *)line);
            }
        }
    }
}

static void undo_empty(void) {
    pm_store(undo->count, (uint64_t)0); //~ BUG_LOG_EMPTIED_WITH_DATA ordering ahead
    //~ BUG_TOP_AFTER_COMMIT atomicity ahead //~ BUG_TOP_UNLOGGED atomicity needed
    //~ BUG_UNLINK_UNLOGGED atomicity needed //~ BUG_COMMIT_NO_FENCE ordering needed
    //~ BUG_COMMIT_NO_FENCE durability needed
    pm_flush(&undo->count, sizeof undo->count); //~ BUG_COMMIT_NO_FENCE missing-fence
#ifndef BUG_COMMIT_NO_FENCE
    pm_fence();
#endif
}

// Newest first, so that a range logged twice ends as it began.
static void undo_roll_back(void) {
    if (undo->count == 0) {
        return;
    }
    for (uint64_t i = undo->count; i-- > 0;) {
        const struct undo_entry *e = &undo->entry[i];
        memcpy(pm_at(e->offset), e->old, e->length);
    }
    undo_flush_ranges();
    pm_fence();
    undo_empty();
}

// Attaches the log of a pool just opened, and undoes the transaction a crash interrupted.
__attribute__((noinline)) void tx_recover(struct undo_log *log) {
    undo = log;
    undo_roll_back();
}

__attribute__((noinline)) void tx_begin(void) {
    if (undo->count != 0) {
        pm_die("transactions do not nest");
    }
}

// Call it before the first change of the range in this transaction, and once.
__attribute__((noinline)) void tx_add_range(const void *ptr, size_t length) {
    if (length > UNDO_BYTES || undo->count == UNDO_ENTRIES) {
        pm_die("the undo log is too small");
    }
    struct undo_entry *e = &undo->entry[undo->count];
    e->offset = pm_offset(ptr); //~ BUG_ENTRY_WITH_COUNT ordering needed
    e->length = length; //~ BUG_ENTRY_WITH_COUNT ordering needed
    memcpy(e->old, ptr, length); //~ BUG_ENTRY_WITH_COUNT ordering needed
    pm_flush(e, sizeof *e);
#ifndef BUG_ENTRY_WITH_COUNT
    pm_fence();
#endif
    pm_store(undo->count, undo->count + 1); //~ BUG_ENTRY_WITH_COUNT ordering ahead
    pm_persist(&undo->count, sizeof undo->count);
}

__attribute__((noinline)) void tx_commit(void) {
    if (undo->count == 0) {
#ifdef BUG_EMPTY_COMMIT_FENCE
        pm_fence(); //~ BUG_EMPTY_COMMIT_FENCE extra-fence
#endif
        return;
    }
    undo_flush_ranges();
#ifndef BUG_LOG_EMPTIED_WITH_DATA
    pm_fence();
#endif
    undo_empty();
}

__attribute__((noinline)) void tx_abort(void) {
    undo_roll_back();
}

#endif
