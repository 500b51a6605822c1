// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A chained hash table in the manner of CLHT: a bucket is one cache line of three pairs and the
// link to an overflow bucket. A pair becomes visible, and durable, with its key, which is stored
// after the value in the same line, so one flush and one fence do. When overflow buckets become
// many, all pairs are copied into a table twice as large, which one store puts in place.
//
// Links are offsets, so the pool may be mapped anywhere. Each bucket has a lock, as its kind has,
// but the locks are a fixed set in DRAM: a lock means nothing after a restart.

#define PM_FLUSH_CLWB
#define PM_FENCE_MFENCE_ASM
#include "pm.h"

#define DRIVER_OPS OPS_KV
#include "driver.h"

enum { PAIRS = 3, FIRST_BUCKETS = 8, LOCKS = 64 };

struct bucket {
    uint64_t value[PAIRS];
    uint64_t key[PAIRS]; // 0: the pair is free
    uint64_t next;       // offset of the overflow bucket
    uint64_t unused;
};

struct table {
    uint64_t buckets; // how many, a power of two
    uint64_t first;   // offset of the array
    uint64_t unused[6];
};

struct lock {
    uint32_t word;
    uint32_t unused[15];
};

struct root {
    uint64_t table;
    uint64_t unused[7];
#ifdef BUG_EXPANSIONS_IN_POOL
    uint64_t expansions; // a cache line of its own
    uint64_t unused_expansions[7];
#endif
#ifdef BUG_LOCKS_IN_POOL
    struct lock lock[LOCKS];
#endif
};

static struct root *root;

#ifndef BUG_LOCKS_IN_POOL
static struct lock locks[LOCKS];
#endif

#ifndef BUG_EXPANSIONS_IN_POOL
static uint64_t expansions; // overflow buckets of this table; counted afresh on opening
#endif

static uint64_t hash(uint64_t key) {
    uint64_t x = key * 0x9e3779b97f4a7c15ull;
    return x ^ x >> 32;
}

static struct bucket *bucket_of(const struct table *t, uint64_t key) {
    return (struct bucket *)pm_at(t->first) + (hash(key) & (t->buckets - 1));
}

static struct table *current(void) {
    return (struct table *)pm_at(root->table);
}

// ---- locks --------------------------------------------------------------------------------

static struct lock *lock_at(uint64_t i) {
#ifdef BUG_LOCKS_IN_POOL
    return &root->lock[i % LOCKS];
#else
    return &locks[i % LOCKS];
#endif
}

// Stores 1 or 0 and says what was there. The exchange is also a fence, so it must not come between
// a flush and the fence that waits for it.
static uint32_t lock_set(struct lock *l, uint32_t to) {
    return __atomic_exchange_n(&l->word, to, __ATOMIC_ACQ_REL); //~ BUG_LOCKS_IN_POOL unpersisted
    // A crash while it is held shows at the callers.
}

static void lock_take(struct lock *l) {
    while (lock_set(l, 1)) { //~ BUG_LOCKS_IN_POOL atomicity ahead //~ BUG_LOCKS_IN_POOL ordering ahead
        _mm_pause();
    }
}

static void lock_release(struct lock *l) {
#ifdef BUG_LOCKS_IN_POOL
    lock_set(l, 0); //~ BUG_LOCKS_IN_POOL atomicity needed //~ BUG_LOCKS_IN_POOL ordering needed
#else
    __atomic_store_n(&l->word, 0u, __ATOMIC_RELEASE);
#endif
}

// ---- resizing -----------------------------------------------------------------------------

static void set_expansions(uint64_t n) {
#ifdef BUG_EXPANSIONS_IN_POOL
    root->expansions = n; //~ BUG_EXPANSIONS_IN_POOL unpersisted
#else
    expansions = n;
#endif
}

static uint64_t get_expansions(void) {
#ifdef BUG_EXPANSIONS_IN_POOL
    return root->expansions;
#else
    return expansions;
#endif
}

static struct bucket *new_bucket(void) {
    struct bucket *b = (struct bucket *)pm_alloc(sizeof *b);
    memset(b, 0, sizeof *b); //~ BUG_SWAP_WITH_TABLE ordering needed
    //~ BUG_LINK_FLUSHES_LOCAL ordering needed
    return b;
}

static struct table *new_table(uint64_t buckets) {
    struct table *t = (struct table *)pm_alloc(sizeof *t);
    struct bucket *array = (struct bucket *)pm_alloc(buckets * sizeof *array);
    t->buckets = buckets; //~ BUG_SWAP_WITH_TABLE ordering needed
    t->first = pm_offset(array); //~ BUG_SWAP_WITH_TABLE ordering needed
    memset(array, 0, buckets * sizeof *array); //~ BUG_SWAP_WITH_TABLE ordering needed
    return t;
}

// Every line of a new table has been stored to, so the whole of it is flushed, chains included.
static void flush_table(const struct table *t) {
    struct bucket *array = (struct bucket *)pm_at(t->first);
    for (uint64_t i = 0; i < t->buckets; i++) {
        for (struct bucket *b = &array[i]; b; b = (struct bucket *)pm_at(b->next)) {
            pm_flush(b, sizeof *b);
        }
    }
    pm_flush(t, sizeof *t);
}

// Copies one pair into a table that nothing refers to yet, without flushing.
static uint64_t copy_pair(struct table *t, uint64_t key, uint64_t value) {
    struct bucket *b = bucket_of(t, key);
    uint64_t added = 0;
    for (;;) {
        for (int i = 0; i < PAIRS; i++) {
            if (!b->key[i]) {
                b->value[i] = value; //~ BUG_SWAP_WITH_TABLE ordering needed
                b->key[i] = key; //~ BUG_SWAP_WITH_TABLE ordering needed
                return added;
            }
        }
        if (!b->next) {
            b->next = pm_offset(new_bucket()); //~ BUG_SWAP_WITH_TABLE ordering needed
            added++;
        }
        b = (struct bucket *)pm_at(b->next);
    }
}

static void free_table(struct table *t) {
    struct bucket *array = (struct bucket *)pm_at(t->first);
    for (uint64_t i = 0; i < t->buckets; i++) {
        uint64_t next = array[i].next;
        while (next) {
            struct bucket *b = (struct bucket *)pm_at(next);
            next = b->next;
            pm_free(b, sizeof *b);
        }
    }
    pm_free(array, t->buckets * sizeof *array);
    pm_free(t, sizeof *t);
}

static void resize(void) {
    for (uint64_t i = 0; i < LOCKS; i++) {
        lock_take(lock_at(i));
    }
    struct table *old = current();
    struct table *t = new_table(old->buckets * 2);
    struct bucket *array = (struct bucket *)pm_at(old->first);
    uint64_t added = 0;
    for (uint64_t n = 0; n < old->buckets; n++) {
        for (struct bucket *b = &array[n]; b; b = (struct bucket *)pm_at(b->next)) {
            for (int i = 0; i < PAIRS; i++) {
                if (b->key[i]) {
                    added += copy_pair(t, b->key[i], b->value[i]);
                }
            }
        }
    }
#ifdef BUG_SWAP_WITH_TABLE
    // The pointer may reach the medium before the table it points to.
    pm_store(root->table, pm_offset(t)); //~ BUG_SWAP_WITH_TABLE ordering ahead
    flush_table(t);
    pm_flush(&root->table, sizeof root->table);
    pm_fence();
#else
    flush_table(t);
    pm_fence();
#ifdef BUG_TABLE_FLUSHED_AGAIN
    pm_flush(t, sizeof *t); //~ BUG_TABLE_FLUSHED_AGAIN extra-flush
#endif
    pm_store(root->table, pm_offset(t));
    pm_flush(&root->table, sizeof root->table);
    pm_fence();
#endif
    set_expansions(added);
    // From here on the old table is garbage; a crash leaks what is not yet freed.
    free_table(old);
    for (uint64_t i = 0; i < LOCKS; i++) {
        lock_release(lock_at(i));
    }
}

// ---- operations ---------------------------------------------------------------------------

struct place {
    struct bucket *bucket;
    int pair;
};

static struct place find(uint64_t key) {
    for (struct bucket *b = bucket_of(current(), key); b; b = (struct bucket *)pm_at(b->next)) {
        for (int i = 0; i < PAIRS; i++) {
            if (b->key[i] == key) {
                return (struct place){b, i};
            }
        }
    }
    return (struct place){NULL, 0};
}

static void put_pair(struct bucket *b, int i, uint64_t key, uint64_t value) {
#ifdef BUG_KEY_BEFORE_VALUE
    pm_store(b->key[i], key); //~ BUG_KEY_BEFORE_VALUE ordering ahead
    pm_store(b->value[i], value); //~ BUG_KEY_BEFORE_VALUE ordering needed
#else
    pm_store(b->value[i], value);
    pm_store(b->key[i], key);
#endif
    pm_persist(b, sizeof *b);
}

// Hangs a new bucket with the pair behind the last one of a full chain.
static void append_bucket(struct bucket *last, uint64_t key, uint64_t value) {
    struct bucket *b = new_bucket();
    b->value[0] = value; //~ BUG_LINK_FLUSHES_LOCAL ordering needed
    b->key[0] = key; //~ BUG_LINK_FLUSHES_LOCAL ordering needed
    uint64_t link = pm_offset(b);
#ifdef BUG_LINK_FLUSHES_LOCAL
    pm_flush(b, sizeof *b);
    pm_store(last->next, link); //~ BUG_LINK_FLUSHES_LOCAL missing-flush
    //~ BUG_LINK_FLUSHES_LOCAL ordering ahead //~ BUG_LINK_FLUSHES_LOCAL durability needed
    pm_flush(&link, sizeof link);
    pm_fence();
#else
    pm_persist(b, sizeof *b);
    pm_store(last->next, link);
    pm_persist(&last->next, sizeof last->next);
#endif
    set_expansions(get_expansions() + 1);
}

static struct op_result insert(uint64_t key, uint64_t value) {
    struct bucket *last = NULL;
    for (struct bucket *b = bucket_of(current(), key); b; b = (struct bucket *)pm_at(b->next)) {
        for (int i = 0; i < PAIRS; i++) {
            if (b->key[i] == key) {
                return op_status(ST_EXISTS);
            }
        }
        last = b;
    }
    for (struct bucket *b = bucket_of(current(), key); b; b = (struct bucket *)pm_at(b->next)) {
        for (int i = 0; i < PAIRS; i++) {
            if (!b->key[i]) {
                put_pair(b, i, key, value);
                return op_status(ST_OK);
            }
        }
    }
    append_bucket(last, key, value);
    return op_status(ST_OK);
}

static struct op_result update(uint64_t key, uint64_t value) {
    struct place at = find(key);
    if (!at.bucket) {
        return op_status(ST_MISSING);
    }
    pm_store(at.bucket->value[at.pair], value); //~ BUG_UPDATE_NO_FLUSH missing-flush
    //~ BUG_UPDATE_NO_FLUSH durability needed
#ifndef BUG_UPDATE_NO_FLUSH
    pm_persist(&at.bucket->value[at.pair], sizeof(uint64_t));
#endif
    return op_status(ST_OK);
}

static struct op_result erase(uint64_t key) {
    struct place at = find(key);
    if (!at.bucket) {
        return op_status(ST_MISSING);
    }
    pm_store(at.bucket->key[at.pair], (uint64_t)0); //~ BUG_DELETE_NO_FENCE durability needed
    pm_flush(&at.bucket->key[at.pair], sizeof(uint64_t)); //~ BUG_DELETE_NO_FENCE missing-fence
#ifndef BUG_DELETE_NO_FENCE
    pm_fence();
#endif
    return op_status(ST_OK);
}

static struct op_result get(uint64_t key) {
    struct place at = find(key);
    return at.bucket ? op_value(at.bucket->value[at.pair]) : op_status(ST_MISSING);
}

// ---- the driver's side --------------------------------------------------------------------

static void create(void) {
    struct root *fresh = (struct root *)pm_alloc(sizeof *fresh);
    struct table *t = new_table(FIRST_BUCKETS);
    flush_table(t);
    fresh->table = pm_offset(t);
    pm_flush(&fresh->table, sizeof fresh->table);
    pm_fence();
    pm_set_root(fresh);
}

static void store_open(const char *path) {
    pm_open(path, 0x43484e48);
    if (!pm_root()) {
        create();
    }
    root = (struct root *)pm_root();
    // Nothing to repair: every operation becomes visible with one store. Only what was kept in
    // DRAM is gone.
    uint64_t chained = 0;
    struct bucket *array = (struct bucket *)pm_at(current()->first);
    for (uint64_t n = 0; n < current()->buckets; n++) {
        for (uint64_t next = array[n].next; next; chained++) {
            next = ((struct bucket *)pm_at(next))->next;
        }
    }
    set_expansions(chained);
}

static struct op_result store_apply(const struct op *op) {
    if (op->kind == OP_GET) {
        return get(op->a);
    }
    struct lock *l = lock_at(hash(op->a));
    lock_take(l);
    struct op_result r = op->kind == OP_INSERT   ? insert(op->a, op->b)
                         : op->kind == OP_UPDATE ? update(op->a, op->b)
                                                 : erase(op->a);
#ifdef BUG_FENCE_BEFORE_RELEASE
    pm_fence(); //~ BUG_FENCE_BEFORE_RELEASE extra-fence
#endif
    lock_release(l);
    if (get_expansions() * 4 > current()->buckets) {
        resize();
    }
    return r;
}

static void store_close(void) {
    pm_close();
}
