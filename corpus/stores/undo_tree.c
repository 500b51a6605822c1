// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A balanced tree (AVL) on the undo log: inserting and deleting rewire several nodes, and the
// transaction makes that one step. A new node is written and made durable before the transaction
// begins, a deleted one is freed after it has committed, so that all a transaction changes is
// what it logs. Values are one word and are replaced in place, without a transaction.
//
// Links are offsets, so the pool may be mapped anywhere.

#define PM_FLUSH_CLWB_ASM
#define PM_FENCE_SFENCE_ASM
#include "pm.h"
#include "undo_log.h"

#define DRIVER_OPS (OPS_KV | 1u << OP_SCAN | 1u << OP_ABORT)
#include "driver.h"

// Alone in its cache line.
struct node {
    uint64_t key;
    uint64_t value;
    uint64_t child[2]; // offsets: lesser keys, greater keys
    uint64_t height;
};

struct root {
    uint64_t top;
    uint64_t unused[7];
#ifdef BUG_SIZE_IN_POOL
    uint64_t size; // a cache line of its own
    uint64_t unused_size[7];
#endif
    struct undo_log log;
};

static struct root *root;

static struct node *node_at(uint64_t offset) {
    return (struct node *)pm_at(offset);
}

static uint64_t height(uint64_t offset) {
    return offset ? node_at(offset)->height : 0;
}

static uint64_t height_by_children(const struct node *n) {
    uint64_t left = height(n->child[0]);
    uint64_t right = height(n->child[1]);
    return (left > right ? left : right) + 1;
}

// ---- what this transaction has logged -----------------------------------------------------

static const struct node *owned[UNDO_ENTRIES];
static unsigned owned_count;

static void begin(void) {
    owned_count = 0;
    tx_begin();
}

// Logs the node unless this transaction has done so. A store to the node follows every call.
static void own(const struct node *n) {
    for (unsigned i = 0; i < owned_count; i++) {
        if (owned[i] == n) {
            return;
        }
    }
    owned[owned_count++] = n;
    tx_add_range(n, sizeof *n);
}

// ---- rewiring, inside a transaction -------------------------------------------------------

// Lifts the child of the given side above the node; returns what now stands in its place.
static uint64_t rotate(struct node *n, int side) {
    struct node *c = node_at(n->child[side]);
    own(n);
    own(c);
#ifdef BUG_ROTATE_LOGS_AGAIN
    tx_add_range(c, sizeof *c); //~ BUG_ROTATE_LOGS_AGAIN double-log
#endif
    n->child[side] = c->child[!side]; //~ BUG_LOG_EMPTIED_WITH_DATA ordering needed
    c->child[!side] = pm_offset(n); //~ BUG_LOG_EMPTIED_WITH_DATA ordering needed
    n->height = height_by_children(n); //~ BUG_LOG_EMPTIED_WITH_DATA ordering needed
    c->height = height_by_children(c); //~ BUG_LOG_EMPTIED_WITH_DATA ordering needed
    return pm_offset(c);
}

// Restores the balance of a node whose subtrees are balanced; returns the subtree's new top.
static uint64_t balance(struct node *n) {
    uint64_t left = height(n->child[0]);
    uint64_t right = height(n->child[1]);
    if (left > right + 1 || right > left + 1) {
        int side = right > left;
        struct node *c = node_at(n->child[side]);
        if (height(c->child[!side]) > height(c->child[side])) {
            uint64_t lifted = rotate(c, !side);
            own(n);
            n->child[side] = lifted; //~ BUG_LOG_EMPTIED_WITH_DATA ordering needed
        }
        return rotate(n, side);
    }
    uint64_t h = height_by_children(n);
    if (h != n->height) {
        own(n);
#ifdef BUG_HEIGHT_LOGGED_AGAIN
        tx_add_range(&n->height, sizeof n->height); //~ BUG_HEIGHT_LOGGED_AGAIN double-log
#endif
        n->height = h; //~ BUG_LOG_EMPTIED_WITH_DATA ordering needed
    }
    return pm_offset(n);
}

static uint64_t link_below(uint64_t at, struct node *fresh) {
    if (!at) {
        return pm_offset(fresh);
    }
    struct node *n = node_at(at);
    int side = fresh->key > n->key;
    uint64_t below = link_below(n->child[side], fresh);
    if (below != n->child[side]) {
        own(n);
        n->child[side] = below; //~ BUG_LOG_EMPTIED_WITH_DATA ordering needed
    }
    return balance(n);
}

// Takes the least node out of a subtree.
static uint64_t unlink_least(uint64_t at, struct node **least) {
    struct node *n = node_at(at);
    if (!n->child[0]) {
        *least = n;
        return n->child[1];
    }
    uint64_t below = unlink_least(n->child[0], least);
    if (below != n->child[0]) {
        own(n);
        n->child[0] = below; //~ BUG_LOG_EMPTIED_WITH_DATA ordering needed
    }
    return balance(n);
}

static uint64_t unlink_key(uint64_t at, uint64_t key, struct node **gone) {
    if (!at) {
        return 0;
    }
    struct node *n = node_at(at);
    if (key != n->key) {
        int side = key > n->key;
        uint64_t below = unlink_key(n->child[side], key, gone);
        if (below != n->child[side]) {
#ifdef BUG_UNLINK_UNLOGGED
            // Made durable by hand, but nothing would bring the old link back.
            n->child[side] = below; //~ BUG_UNLINK_UNLOGGED unlogged-update
            //~ BUG_UNLINK_UNLOGGED atomicity ahead
            pm_persist(&n->child[side], sizeof n->child[side]);
#else
            own(n);
            n->child[side] = below; //~ BUG_LOG_EMPTIED_WITH_DATA ordering needed
#endif
        }
        return *gone ? balance(n) : at;
    }
    *gone = n;
    if (!n->child[0] || !n->child[1]) {
        return n->child[0] ? n->child[0] : n->child[1];
    }
    struct node *heir;
    uint64_t right = unlink_least(n->child[1], &heir);
    own(heir);
    heir->child[0] = n->child[0]; //~ BUG_LOG_EMPTIED_WITH_DATA ordering needed
    heir->child[1] = right; //~ BUG_LOG_EMPTIED_WITH_DATA ordering needed
    return balance(heir);
}

static void set_top(uint64_t top) {
    if (top != root->top) {
        tx_add_range(&root->top, sizeof root->top);
        root->top = top; //~ BUG_LOG_EMPTIED_WITH_DATA ordering needed
    }
}

// Commits, with the tree's new top as part of the transaction.
static void finish(uint64_t top) {
#if defined(BUG_TOP_AFTER_COMMIT)
    tx_commit();
    if (top != root->top) {
        pm_store(root->top, top); //~ BUG_TOP_AFTER_COMMIT atomicity needed
        pm_persist(&root->top, sizeof root->top);
    }
#elif defined(BUG_TOP_UNLOGGED)
    if (top != root->top) {
        root->top = top; //~ BUG_TOP_UNLOGGED unlogged-update //~ BUG_TOP_UNLOGGED atomicity ahead
        pm_persist(&root->top, sizeof root->top);
    }
    tx_commit();
#else
    set_top(top);
    tx_commit();
#endif
}

// ---- operations ---------------------------------------------------------------------------

#ifdef BUG_SIZE_IN_POOL
static void count_node(int delta) {
    root->size += (uint64_t)delta; //~ BUG_SIZE_IN_POOL unpersisted
}
#else
#define count_node(delta) ((void)0)
#endif

static struct node *find(uint64_t key) {
    struct node *n = node_at(root->top);
    while (n && n->key != key) {
        n = node_at(n->child[key > n->key]);
    }
    return n;
}

static struct node *new_node(uint64_t key, uint64_t value) {
    struct node *n = (struct node *)pm_alloc(sizeof *n);
    *n = (struct node){key, value, {0, 0}, 1};
    pm_persist(n, sizeof *n);
    return n;
}

static struct op_result insert(uint64_t key, uint64_t value) {
    if (find(key)) {
        return op_status(ST_EXISTS);
    }
    struct node *fresh = new_node(key, value);
#ifdef BUG_NODE_FLUSHED_AGAIN
    pm_flush(fresh, sizeof *fresh); //~ BUG_NODE_FLUSHED_AGAIN extra-flush
#endif
    begin();
    finish(link_below(root->top, fresh));
    count_node(1);
    return op_status(ST_OK);
}

// Inserts, and thinks better of it.
static struct op_result insert_and_abort(uint64_t key, uint64_t value) {
    if (find(key)) {
        return op_status(ST_EXISTS);
    }
    struct node *fresh = new_node(key, value);
    begin();
    set_top(link_below(root->top, fresh));
    tx_abort();
    pm_free(fresh, sizeof *fresh);
    return op_status(ST_ABORTED);
}

static struct op_result update(uint64_t key, uint64_t value) {
    struct node *n = find(key);
    if (!n) {
        return op_status(ST_MISSING);
    }
    pm_store(n->value, value); //~ BUG_UPDATE_NO_FLUSH missing-flush
    //~ BUG_UPDATE_NO_FLUSH durability needed
#ifndef BUG_UPDATE_NO_FLUSH
    pm_persist(&n->value, sizeof n->value);
#endif
    return op_status(ST_OK);
}

static struct op_result erase(uint64_t key) {
    struct node *gone = NULL;
    begin();
    finish(unlink_key(root->top, key, &gone));
    if (!gone) {
        return op_status(ST_MISSING);
    }
    pm_free(gone, sizeof *gone);
    count_node(-1);
    return op_status(ST_OK);
}

static struct op_result get(uint64_t key) {
    struct node *n = find(key);
    return n ? op_value(n->value) : op_status(ST_MISSING);
}

static uint64_t sum_from(uint64_t at, uint64_t key, uint64_t *limit) {
    struct node *n = node_at(at);
    if (!n || !*limit) {
        return 0;
    }
    uint64_t sum = 0;
    if (key < n->key) {
        sum += sum_from(n->child[0], key, limit);
    }
    if (key <= n->key && *limit) {
        sum += n->value;
        --*limit;
    }
    return sum + sum_from(n->child[1], key, limit);
}

// The sum of up to `limit` values from the key on.
static struct op_result scan(uint64_t key, uint64_t limit) {
    return op_value(sum_from(root->top, key, &limit));
}

// ---- the driver's side --------------------------------------------------------------------

static void store_open(const char *path) {
    pm_open(path, 0x554e444f);
    if (!pm_root()) {
        struct root *fresh = (struct root *)pm_alloc(sizeof *fresh);
        fresh->top = 0;
        fresh->log.count = 0;
        pm_flush(&fresh->top, sizeof fresh->top);
        pm_flush(&fresh->log.count, sizeof fresh->log.count);
        pm_fence();
        pm_set_root(fresh);
    }
    root = (struct root *)pm_root();
    tx_recover(&root->log);
}

static struct op_result store_apply(const struct op *op) {
    switch (op->kind) {
    case OP_INSERT:
        return insert(op->a, op->b);
    case OP_UPDATE:
        return update(op->a, op->b);
    case OP_DELETE:
        return erase(op->a);
    case OP_SCAN:
        return scan(op->a, op->b);
    case OP_ABORT:
        return insert_and_abort(op->a, op->b);
    default:
        return get(op->a);
    }
}

static void store_close(void) {
    pm_close();
}
