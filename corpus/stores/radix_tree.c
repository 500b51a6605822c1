// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A radix tree in the manner of ART: inner nodes branch on one byte of the key, most significant
// first, and come in three sizes. A leaf stands as high as its key is alone, and paths are not
// compressed. Nodes of 4 and 16 are counted: only the first `count` children exist, in the order
// they came, and what lies behind them is whatever the memory held before. The count is therefore
// the commit: a child is durable before it is counted. Everything else that changes is built aside
// and put in place with one store to the pointer above it.
//
// Pointers are raw, so the pool is mapped at a fixed address. The lowest bit marks leaves.

#define PM_FLUSH_CLFLUSH
#define PM_FIXED_BASE 0x200000000000ull
#include "pm.h"

#define DRIVER_OPS OPS_KV
#include "driver.h"

enum { NODE4 = 4, NODE16 = 16, NODE256 = 256, KEY_BYTES = 8, SHRINK_TO_16 = 12 };

struct leaf {
    uint64_t key;
    uint64_t value;
};

struct node {
    uint16_t kind;
    uint16_t count; // in a node of 256 unused: its children say which of them exist
    uint32_t unused;
};

// A node of 4 ends after the fourth child and is one cache line. In a node of 16 the children
// from the sixth on lie in other lines than the count.
struct counted {
    struct node node;
    uint8_t byte[16];
    void *child[16];
};

struct direct {
    struct node node;
    uint64_t unused[7];
    void *child[256];
};

struct root {
    void *top;
    uint64_t unused[7];
#ifdef BUG_LOOKUPS_IN_POOL
    uint64_t lookups; // a cache line of its own
    uint64_t unused_lookups[7];
#endif
};

static struct root *root;

static int is_leaf(const void *p) {
    return (uintptr_t)p & 1;
}

static struct leaf *leaf_of(void *p) {
    return (struct leaf *)((uintptr_t)p - 1);
}

static void *tagged(struct leaf *l) {
    return (void *)((uintptr_t)l + 1);
}

static uint8_t byte_at(uint64_t key, unsigned depth) {
    return (uint8_t)(key >> (8 * (KEY_BYTES - 1 - depth)));
}

static size_t node_bytes(unsigned kind) {
    return kind == NODE256 ? sizeof(struct direct)
                           : offsetof(struct counted, child) + kind * sizeof(void *);
}

// ---- building -----------------------------------------------------------------------------

static struct leaf *new_leaf(uint64_t key, uint64_t value) {
    struct leaf *l = (struct leaf *)pm_alloc(sizeof *l);
    l->key = key;
    l->value = value;
    pm_persist(l, sizeof *l);
    return l;
}

static struct counted *new_counted(unsigned kind) {
    struct counted *c = (struct counted *)pm_alloc(node_bytes(kind));
    c->node.kind = (uint16_t)kind; //~ BUG_GROWN_WITH_POINTER ordering needed
    c->node.count = 0; //~ BUG_GROWN_WITH_POINTER ordering needed
    return c;
}

// Adds a child to a node that nothing refers to yet.
static void fill(struct counted *c, uint8_t byte, void *child) {
    c->byte[c->node.count] = byte; //~ BUG_GROWN_WITH_POINTER ordering needed
    c->child[c->node.count] = child; //~ BUG_GROWN_WITH_POINTER ordering needed
    c->node.count++; //~ BUG_GROWN_WITH_POINTER ordering needed
}

// Flushes what has been filled, and no line behind it.
static void flush_counted(const struct counted *c) {
    pm_flush(c, offsetof(struct counted, child) + c->node.count * sizeof(void *));
}

static struct direct *new_direct(void) {
    struct direct *d = (struct direct *)pm_alloc(sizeof *d);
    memset(d, 0, sizeof *d); //~ BUG_GROWN_WITH_POINTER ordering needed
    d->node.kind = NODE256; //~ BUG_GROWN_WITH_POINTER ordering needed
    return d;
}

// Puts a finished, durable subtree in place.
static void publish(void **slot, void *subtree) {
    pm_store(*slot, subtree);
    pm_persist(slot, sizeof *slot);
}

// ---- searching ----------------------------------------------------------------------------

static void **find_child(struct node *n, uint8_t byte) {
    if (n->kind == NODE256) {
        void **child = &((struct direct *)n)->child[byte];
        return *child ? child : NULL;
    }
    struct counted *c = (struct counted *)n;
    for (unsigned i = 0; i < n->count; i++) {
        if (c->byte[i] == byte) {
            return &c->child[i];
        }
    }
    return NULL;
}

static struct leaf *find(uint64_t key) {
    void *p = root->top;
    if (!p) {
        return NULL;
    }
    for (unsigned depth = 0; !is_leaf(p); depth++) {
        void **child = find_child((struct node *)p, byte_at(key, depth));
        if (!child) {
            return NULL;
        }
        p = *child;
    }
    return leaf_of(p)->key == key ? leaf_of(p) : NULL;
}

// ---- inserting ----------------------------------------------------------------------------

// The child's line first, if it has one of its own; then byte and count, which share a line and
// so become durable in the order stored.
static void append_child(struct counted *c, uint8_t byte, void *child) {
    unsigned n = c->node.count;
    int apart = !pm_same_line(&c->child[n], c);
    pm_store(c->child[n], child); //~ BUG_COUNT_WITH_CHILD ordering needed
#ifndef BUG_COUNT_WITH_CHILD
    if (apart) {
        pm_persist(&c->child[n], sizeof(void *));
    }
#endif
    c->byte[n] = byte;
    pm_store(c->node.count, (uint16_t)(n + 1)); //~ BUG_COUNT_WITH_CHILD ordering ahead
#ifdef BUG_COUNT_WITH_CHILD
    // Both lines at once: the count may be durable before the child.
    if (apart) {
        pm_flush(&c->child[n], sizeof(void *));
    }
#endif
    pm_persist(c, sizeof c->node);
}

// The next larger node with the full one's children and one more.
static void *grown(const struct counted *old, uint8_t byte, void *child) {
    if (old->node.kind == NODE4) {
        struct counted *c = new_counted(NODE16);
        for (unsigned i = 0; i < old->node.count; i++) {
            fill(c, old->byte[i], old->child[i]);
        }
        fill(c, byte, child);
#ifndef BUG_GROWN_WITH_POINTER
        flush_counted(c);
#endif
        return c;
    }
    struct direct *d = new_direct();
    for (unsigned i = 0; i < old->node.count; i++) {
        d->child[old->byte[i]] = old->child[i]; //~ BUG_GROWN_WITH_POINTER ordering needed
    }
    d->child[byte] = child; //~ BUG_GROWN_WITH_POINTER ordering needed
#ifdef BUG_DIRECT_COUNTED
    d->node.count = (uint16_t)(old->node.count + 1);
#endif
#ifndef BUG_GROWN_WITH_POINTER
    pm_flush(d, sizeof *d);
#endif
    return d;
}

#ifdef BUG_GROWN_WITH_POINTER
static void flush_grown(const struct node *n) {
    if (n->kind == NODE256) {
        pm_flush(n, sizeof(struct direct));
    } else {
        flush_counted((const struct counted *)n);
    }
}
#endif

static void add_child(void **slot, uint8_t byte, void *child) {
    struct node *n = (struct node *)*slot;
    if (n->kind == NODE256) {
        struct direct *d = (struct direct *)n;
        pm_store(d->child[byte], child); //~ BUG_DIRECT_COUNTED ordering ahead
        pm_persist(&d->child[byte], sizeof(void *));
#ifdef BUG_DIRECT_COUNTED
        pm_store(n->count, (uint16_t)(n->count + 1)); //~ BUG_DIRECT_COUNTED ordering needed
        pm_persist(&n->count, sizeof n->count);
#endif
        return;
    }
    struct counted *c = (struct counted *)n;
    if (n->count < n->kind) {
        append_child(c, byte, child);
        return;
    }
    void *larger = grown(c, byte, child);
#ifdef BUG_GROWN_WITH_POINTER
    // The pointer may be durable before what it points to.
    pm_store(*slot, larger); //~ BUG_GROWN_WITH_POINTER ordering ahead
    flush_grown((const struct node *)larger);
    pm_persist(slot, sizeof *slot);
#else
    pm_fence();
    publish(slot, larger);
#endif
    pm_free(c, node_bytes(n->kind));
}

// Replaces a leaf by as many nodes as it takes to tell two keys apart.
static void push_down(void **slot, unsigned depth, void *old, struct leaf *fresh) {
    void *top = NULL;
    void **link = &top;
    uint64_t key = leaf_of(old)->key;
    struct counted *path[KEY_BYTES];
    unsigned nodes = 0;
    for (;; depth++) {
        struct counted *c = new_counted(NODE4);
        *link = c;
        path[nodes++] = c;
        if (byte_at(key, depth) != byte_at(fresh->key, depth)) {
            fill(c, byte_at(key, depth), old);
            fill(c, byte_at(fresh->key, depth), tagged(fresh));
            break;
        }
        fill(c, byte_at(key, depth), NULL);
        link = &c->child[0];
    }
#ifdef BUG_LEAF_FLUSHED_AGAIN
    pm_flush(fresh, sizeof *fresh); //~ BUG_LEAF_FLUSHED_AGAIN extra-flush
#endif
    for (unsigned i = 0; i < nodes; i++) {
        flush_counted(path[i]);
    }
    pm_fence();
    publish(slot, top);
}

static struct op_result insert(uint64_t key, uint64_t value) {
    if (find(key)) {
#ifdef BUG_FENCE_ON_EXISTING
        pm_fence(); //~ BUG_FENCE_ON_EXISTING extra-fence
#endif
        return op_status(ST_EXISTS);
    }
    struct leaf *fresh = new_leaf(key, value);
    if (!root->top) {
        publish(&root->top, tagged(fresh));
        return op_status(ST_OK);
    }
    void **slot = &root->top;
    for (unsigned depth = 0;; depth++) {
        if (is_leaf(*slot)) {
            push_down(slot, depth, *slot, fresh);
            return op_status(ST_OK);
        }
        void **child = find_child((struct node *)*slot, byte_at(key, depth));
        if (!child) {
            add_child(slot, byte_at(key, depth), tagged(fresh));
            return op_status(ST_OK);
        }
        slot = child;
    }
}

// ---- removing -----------------------------------------------------------------------------

static unsigned live_children(const struct direct *d) {
#ifdef BUG_DIRECT_COUNTED
    return d->node.count;
#else
    unsigned live = 0;
    for (unsigned b = 0; b < 256; b++) {
        live += d->child[b] != NULL;
    }
    return live;
#endif
}

static void remove_direct(void **slot, uint8_t byte) {
    struct direct *d = (struct direct *)*slot;
    unsigned rest = live_children(d) - 1;
    if (rest > SHRINK_TO_16) {
        pm_store(d->child[byte], (void *)NULL);
        pm_persist(&d->child[byte], sizeof(void *));
#ifdef BUG_DIRECT_COUNTED
        pm_store(d->node.count, (uint16_t)rest);
        pm_persist(&d->node.count, sizeof d->node.count);
#endif
        return;
    }
    struct counted *c = new_counted(NODE16);
    for (unsigned b = 0; b < 256 && c->node.count < rest; b++) {
        if (d->child[b] && b != byte) {
            fill(c, (uint8_t)b, d->child[b]);
        }
    }
    flush_counted(c);
    pm_fence();
    publish(slot, c);
    pm_free(d, sizeof *d);
}

// Counted nodes are replaced by a copy without the child, as small as will do; the last leaf takes
// the place of its node.
static void remove_counted(void **slot, uint8_t byte) {
    struct counted *old = (struct counted *)*slot;
    unsigned rest = old->node.count - 1u;
    size_t bytes = node_bytes(old->node.kind);
    if (rest == 1 && is_leaf(old->child[old->byte[0] == byte])) {
        publish(slot, old->child[old->byte[0] == byte]);
    } else {
        struct counted *c = new_counted(rest <= NODE4 ? NODE4 : NODE16);
        for (unsigned i = 0; i <= rest; i++) {
            if (old->byte[i] != byte) {
                fill(c, old->byte[i], old->child[i]);
            }
        }
        flush_counted(c);
        pm_fence();
        publish(slot, c);
    }
    pm_free(old, bytes);
}

static struct op_result erase(uint64_t key) {
    struct leaf *l = find(key);
    if (!l) {
        return op_status(ST_MISSING);
    }
    // The way down to the leaf. Nodes at its end that lead nowhere else go with it.
    void **slot[KEY_BYTES + 1] = {&root->top};
    int depth = 0;
    for (; !is_leaf(*slot[depth]); depth++) {
        slot[depth + 1] = find_child((struct node *)*slot[depth], byte_at(key, (unsigned)depth));
    }
    int keep = depth - 1;
    struct node *dropped[KEY_BYTES];
    int drops = 0;
    for (; keep >= 0; keep--) {
        struct node *n = (struct node *)*slot[keep];
        if (n->kind == NODE256 || n->count > 1) {
            break;
        }
        dropped[drops++] = n;
    }
    if (keep < 0) {
        publish(&root->top, NULL);
    } else if (((struct node *)*slot[keep])->kind == NODE256) {
        remove_direct(slot[keep], byte_at(key, (unsigned)keep));
    } else {
        remove_counted(slot[keep], byte_at(key, (unsigned)keep));
    }
    for (int i = 0; i < drops; i++) {
        pm_free(dropped[i], node_bytes(dropped[i]->kind));
    }
    pm_free(l, sizeof *l);
    return op_status(ST_OK);
}

// ---- the rest -----------------------------------------------------------------------------

static struct op_result update(uint64_t key, uint64_t value) {
    struct leaf *l = find(key);
    if (!l) {
        return op_status(ST_MISSING);
    }
    pm_store(l->value, value); //~ BUG_UPDATE_NO_FLUSH missing-flush
    //~ BUG_UPDATE_NO_FLUSH durability needed
#ifndef BUG_UPDATE_NO_FLUSH
    pm_persist(&l->value, sizeof l->value);
#endif
    return op_status(ST_OK);
}

static struct op_result get(uint64_t key) {
#ifdef BUG_LOOKUPS_IN_POOL
    root->lookups++; //~ BUG_LOOKUPS_IN_POOL unpersisted
#endif
    struct leaf *l = find(key);
    return l ? op_value(l->value) : op_status(ST_MISSING);
}

static void store_open(const char *path) {
    pm_open(path, 0x52414458);
    if (!pm_root()) {
        struct root *fresh = (struct root *)pm_alloc(sizeof *fresh);
        fresh->top = NULL;
        pm_persist(&fresh->top, sizeof fresh->top);
        pm_set_root(fresh);
    }
    // Nothing to repair: what was not put in place by its one store does not exist.
    root = (struct root *)pm_root();
}

static struct op_result store_apply(const struct op *op) {
    switch (op->kind) {
    case OP_INSERT:
        return insert(op->a, op->b);
    case OP_UPDATE:
        return update(op->a, op->b);
    case OP_DELETE:
        return erase(op->a);
    default:
        return get(op->a);
    }
}

static void store_close(void) {
    pm_close();
}
