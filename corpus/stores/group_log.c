// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A log of changes with group commit, for several threads. What is in it is the log up to its
// durable length; an index in volatile memory is made from it when the store is opened.
//
// An operation takes its place in the log and in the index under a lock, writes its record, makes
// it durable, and waits until all that run at once have got that far. The last one, the leader,
// stores the new length: one store commits them all, and none returns before it is durable. With
// one thread every operation is its own leader, and none of the bugs below shows.

#define PM_FLUSH_CLWB
#define PM_FENCE_SFENCE_ASM
#include "pm.h"

#define DRIVER_OPS OPS_KV
#define DRIVER_THREADS
#include "driver.h"

struct record {
    uint64_t key;   // stored last
    uint64_t value; // 0: the key is gone
    uint64_t unused[6];
};

struct journal {
    uint64_t length; // of what has been committed
    uint64_t unused[7];
    struct record records[];
};

static struct journal *journal;

// ---- the index ----------------------------------------------------------------------------

enum { INDEX_SLOTS = 1 << 17 };

static struct {
    uint64_t key, value;
} slots[INDEX_SLOTS];

static uint64_t *slot_of(uint64_t key) {
    uint64_t at = key * 0x9e3779b97f4a7c15ull >> 47;
    for (unsigned tries = 0; tries < INDEX_SLOTS; tries++, at++) {
        at %= INDEX_SLOTS;
        if (slots[at].key == key || slots[at].key == 0) {
            slots[at].key = key;
            return &slots[at].value;
        }
    }
    pm_die("the index is full");
    return NULL;
}

// ---- the group ----------------------------------------------------------------------------

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned arrived;
    uint64_t committed; // groups
    uint64_t reserved;  // records
    uint64_t capacity;
} group = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void commit(uint64_t length) {
    pm_store(journal->length, length);
    //~ BUG_LEADER_FENCES ordering ahead //~ BUG_EARLY_RETURN durability needed
    pm_persist(&journal->length, sizeof journal->length);
}

static void join_group(void) {
    unsigned all = driver_at_once;
    pthread_mutex_lock(&group.lock);
    uint64_t ours = group.committed;
    if (++group.arrived < all) {
#ifdef BUG_EARLY_RETURN
        pthread_mutex_unlock(&group.lock);
        return;
#else
        while (group.committed == ours) {
            pthread_cond_wait(&group.changed, &group.lock);
        }
#endif
    } else {
        commit(group.reserved);
        group.arrived = 0;
        group.committed = ours + 1;
        pthread_cond_broadcast(&group.changed);
    }
    pthread_mutex_unlock(&group.lock);
}

static void write_record(uint64_t at, uint64_t key, uint64_t value) {
    struct record *record = &journal->records[at];
    record->value = value; //~ BUG_LEADER_FENCES ordering needed
    pm_store(record->key, key); //~ BUG_LEADER_FENCES ordering needed
    pm_flush(record, sizeof *record);
#ifdef BUG_LEADER_FENCES
    // The leader's fence is taken to stand for all, though it waits for the leader's flushes only.
    if (driver_at_once > 1) {
        return;
    }
#endif
    pm_fence();
}

// Takes a place for a change; the answer of the operation.
static struct op_result change(const struct op *op) {
    pthread_mutex_lock(&group.lock);
    uint64_t *value = slot_of(op->a);
    int there = *value != 0;
    struct op_result answer = op_status(ST_OK);
    uint64_t at = UINT64_MAX;
    if (op->kind == OP_INSERT ? there : !there) {
        answer = op_status(there ? ST_EXISTS : ST_MISSING);
    } else if (group.reserved == group.capacity) {
        answer = op_status(ST_FULL);
    } else {
        *value = op->kind == OP_DELETE ? 0 : op->b;
        at = group.reserved++;
    }
    pthread_mutex_unlock(&group.lock);
    if (at != UINT64_MAX) {
        write_record(at, op->a, op->kind == OP_DELETE ? 0 : op->b);
    }
    return answer;
}

// ---- the driver's side --------------------------------------------------------------------

static void store_open(const char *path) {
    pm_open(path, 0x474c4f47);
    if (!pm_root()) {
        // The records are what is left of the pool.
        struct journal *fresh = (struct journal *)pm_alloc(PM_LINE);
        fresh->length = 0;
        pm_persist(&fresh->length, sizeof fresh->length);
        pm_set_root(fresh);
    }
    journal = (struct journal *)pm_root();
    uint64_t bytes = PM_POOL_SIZE - pm_offset(journal) - sizeof *journal;
    group.capacity = bytes / sizeof(struct record);
    group.reserved = journal->length;
    for (uint64_t i = 0; i < journal->length; i++) {
        if (journal->records[i].key == 0) {
            pm_die("a record that was committed is not there");
        }
        *slot_of(journal->records[i].key) = journal->records[i].value;
    }
}

static struct op_result store_apply(const struct op *op) {
    struct op_result answer;
    if (op->kind == OP_GET) {
        pthread_mutex_lock(&group.lock);
        uint64_t value = *slot_of(op->a);
        pthread_mutex_unlock(&group.lock);
        answer = value ? op_value(value) : op_status(ST_MISSING);
    } else {
        answer = change(op);
    }
    // What a question saw must be durable before it is answered.
    join_group();
    return answer;
}

static void store_close(void) {
    pm_close();
}
