// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Two words that are always equal, changed by way of an undo log of one entry. The operations are
// correct: the bug below shows only if power fails again, while recovery undoes an update.

#define PM_FLUSH_CLFLUSHOPT_ASM
#define PM_FENCE_SFENCE_ASM
#include "../stores/pm.h"

#define DRIVER_OPS (1u << OP_UPDATE | 1u << OP_GET)
#include "../stores/driver.h"

struct line {
    uint64_t word;
    uint64_t unused[7];
};

struct pair {
    struct line left, right;
    struct line old; // what both were
    struct line is_valid;
};

static struct pair *pair;

static void undo(void) {
    pm_store(pair->left.word, pair->old.word); //~ BUG_UNDONE_UNFENCED ordering needed
    pm_flush(&pair->left, sizeof pair->left);
    pm_store(pair->right.word, pair->old.word); //~ BUG_UNDONE_UNFENCED ordering needed
    pm_flush(&pair->right, sizeof pair->right);
#ifndef BUG_UNDONE_UNFENCED
    pm_fence();
#endif
    pm_store(pair->is_valid.word, (uint64_t)0); //~ BUG_UNDONE_UNFENCED ordering ahead
    pm_persist(&pair->is_valid, sizeof pair->is_valid);
}

static void store_open(const char *path) {
    pm_open(path, 0x50414952);
    if (!pm_root()) {
        struct pair *fresh = (struct pair *)pm_alloc(sizeof *fresh);
        memset(fresh, 0, sizeof *fresh);
        pm_persist(fresh, sizeof *fresh);
        pm_set_root(fresh);
    }
    pair = (struct pair *)pm_root();
    if (pair->is_valid.word) {
        undo();
    }
    if (pair->left.word != pair->right.word) {
        pm_die("the two differ");
    }
}

static struct op_result store_apply(const struct op *op) {
    if (op->kind == OP_GET) {
        return pair->left.word ? op_value(pair->left.word) : op_status(ST_MISSING);
    }
    pm_store(pair->old.word, pair->left.word);
    pm_persist(&pair->old, sizeof pair->old);
    pm_store(pair->is_valid.word, (uint64_t)1);
    pm_persist(&pair->is_valid, sizeof pair->is_valid);
    pm_store(pair->left.word, op->b);
    pm_flush(&pair->left, sizeof pair->left);
    pm_store(pair->right.word, op->b);
    pm_persist(&pair->right, sizeof pair->right);
    pm_store(pair->is_valid.word, (uint64_t)0);
    pm_persist(&pair->is_valid, sizeof pair->is_valid);
    return op_status(ST_OK);
}

static void store_close(void) {
    pm_close();
}
