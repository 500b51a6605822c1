// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A two-level hash table in the manner of Level Hashing: a top level of 2^n buckets and a bottom
// level of half as many, two hash functions, so four candidate buckets per key. Each bucket has
// one word of tokens that says which slots are in use; a slot counts only once its token is
// durable. When no candidate has room, one resident item moves to another of its own candidates;
// when that fails too, the old bottom is rehashed into a new top twice as large.
//
// Pointers are raw, so the pool is mapped at a fixed address. Values are text of 15 digits: two
// words, hence not replaceable by one store.

#define PM_FLUSH_CLFLUSHOPT_ASM
#define PM_FENCE_SFENCE_ASM
#define PM_FIXED_BASE 0x200000000000ull
#include "pm.h"

#define DRIVER_OPS OPS_KV
#include "driver.h"

enum { SLOTS = 5, DIGITS = 15, FIRST_BITS = 3 };

struct slot {
    uint64_t key;
    char value[16];
};

// Two cache lines. Slots 0 and 1 share the line of the tokens, slot 2 straddles both lines, slots
// 3 and 4 lie in the second: what orders a slot before its token has to work for all of them.
struct bucket {
    uint64_t tokens;
    struct slot slot[SLOTS];
};

// Replaced as a whole when the table grows, by one store to root->levels.
struct levels {
    struct bucket *bucket[2]; // top, bottom
    uint64_t bits[2];
};

enum intent_kind { INTENT_NONE, INTENT_UPDATE, INTENT_MOVE };

// What recovery must finish. One cache line, the kind stored last.
struct intent {
    struct bucket *bucket;
    uint64_t slot;
    char value[16];
    uint64_t kind;
    uint64_t unused[3];
};

struct root {
    struct levels *levels;
    uint64_t unused[7];
    struct intent intent;
#ifdef BUG_ITEM_COUNT
    uint64_t items; // a cache line of its own
    uint64_t unused_items[7];
#endif
};

struct place {
    struct bucket *bucket;
    int slot;
};

static struct root *root;

#ifndef BUG_ITEM_COUNT
static uint64_t items; // only steers growth: counted afresh when the pool is opened
#endif

static uint64_t hash(uint64_t key, unsigned which) {
    uint64_t x = (key + 1) * (which ? 0xd6e8feb86659fd93ull : 0x9e3779b97f4a7c15ull);
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9ull;
    return x ^ x >> 32;
}

static struct bucket *candidate(const struct levels *l, unsigned level, unsigned which,
                                uint64_t key) {
    return l->bucket[level] + (hash(key, which) & ((1ull << l->bits[level]) - 1));
}

static size_t level_bytes(const struct levels *l, unsigned level) {
    return sizeof(struct bucket) << l->bits[level];
}

static void format_value(char out[16], uint64_t value) {
    out[DIGITS] = 0;
    for (int i = DIGITS - 1; i >= 0; i--) {
        out[i] = (char)('0' + value % 10);
        value /= 10;
    }
}

static uint64_t parse_value(const char text[16]) {
    uint64_t value = 0;
    for (int i = 0; i < DIGITS; i++) {
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    return value;
}

static int free_slot(const struct bucket *b) {
    for (int i = 0; i < SLOTS; i++) {
        if (!(b->tokens >> i & 1)) {
            return i;
        }
    }
    return -1;
}

static void count_item(int delta) {
#ifdef BUG_ITEM_COUNT
    root->items += (uint64_t)delta; //~ BUG_ITEM_COUNT unpersisted
#else
    items += (uint64_t)delta;
#endif
}

static int half_empty(void) {
    uint64_t room = SLOTS * ((1ull << root->levels->bits[0]) + (1ull << root->levels->bits[1]));
#ifdef BUG_ITEM_COUNT
    return root->items * 2 < room;
#else
    return items * 2 < room;
#endif
}

// Finds the key in any candidate but `skip`.
static struct place find_except(uint64_t key, struct place skip) {
    for (unsigned c = 0; c < 4; c++) {
        struct bucket *b = candidate(root->levels, c / 2, c % 2, key);
        for (int i = 0; i < SLOTS; i++) {
            if (b->tokens >> i & 1 && b->slot[i].key == key &&
                !(b == skip.bucket && i == skip.slot)) {
                return (struct place){b, i};
            }
        }
    }
    return (struct place){NULL, 0};
}

static struct place find(uint64_t key) {
    return find_except(key, (struct place){NULL, 0});
}

// Writes an item into a free slot: contents first, token once they are durable.
static void put(struct bucket *b, int i, uint64_t key, const char value[16]) {
    struct slot *s = &b->slot[i];
    s->key = key; //~ BUG_TOKEN_WITH_ITEM ordering needed
    memcpy(s->value, value, sizeof s->value); //~ BUG_TOKEN_WITH_ITEM ordering needed
#if defined(BUG_TOKEN_WITH_ITEM)
    // The token's line may reach the medium before the item's.
    pm_store(b->tokens, b->tokens | 1ull << i); //~ BUG_TOKEN_WITH_ITEM ordering ahead
    pm_persist(b, (size_t)((char *)(s + 1) - (char *)b));
#else
#ifdef BUG_FLUSH_KEY_AND_VALUE
    pm_flush(&s->key, sizeof s->key);
    pm_flush(s->value, sizeof s->value); //~ BUG_FLUSH_KEY_AND_VALUE extra-flush
#else
    pm_flush(s, sizeof *s);
#endif
    pm_fence();
    pm_store(b->tokens, b->tokens | 1ull << i); //~ BUG_PUT_NO_FENCE durability needed
    //~ BUG_PUT_NO_FENCE ordering needed //~ BUG_MOVE_NO_INTENT atomicity ahead
    pm_flush(&b->tokens, sizeof b->tokens); //~ BUG_PUT_NO_FENCE missing-fence
#ifndef BUG_PUT_NO_FENCE
    pm_fence();
#endif
#endif
}

static void set_intent(enum intent_kind kind, struct bucket *b, int slot, const char *value) {
    struct intent *in = &root->intent;
    in->bucket = b;
    in->slot = (uint64_t)slot;
    if (value) {
        memcpy(in->value, value, sizeof in->value);
    }
    pm_store(in->kind, (uint64_t)kind);
    pm_persist(in, sizeof *in);
}

static void clear_intent(void) {
    pm_store(root->intent.kind, (uint64_t)INTENT_NONE);
    pm_persist(&root->intent.kind, sizeof root->intent.kind);
}

// Moves an item to a free slot of another of its candidates. Between the two token stores the
// item exists twice; the intent lets recovery take the copy at the source away.
static void move(struct place from, struct bucket *to, int slot) {
    struct slot *s = &from.bucket->slot[from.slot];
#ifndef BUG_MOVE_NO_INTENT
    set_intent(INTENT_MOVE, from.bucket, from.slot, NULL);
#endif
    put(to, slot, s->key, s->value);
    uint64_t rest = from.bucket->tokens & ~(1ull << from.slot);
    pm_store(from.bucket->tokens, rest); //~ BUG_MOVE_NO_INTENT atomicity needed
    //~ BUG_PUT_NO_FENCE ordering ahead
    pm_persist(&from.bucket->tokens, sizeof from.bucket->tokens);
#ifndef BUG_MOVE_NO_INTENT
    clear_intent();
#endif
}

// Makes room in one of the key's candidates by moving a resident item elsewhere.
static struct place make_room(uint64_t key) {
    for (unsigned c = 0; c < 4; c++) {
        struct bucket *b = candidate(root->levels, c / 2, c % 2, key);
        for (int i = 0; i < SLOTS; i++) {
            for (unsigned a = 0; a < 4; a++) {
                struct bucket *to = candidate(root->levels, a / 2, a % 2, b->slot[i].key);
                int slot = to == b ? -1 : free_slot(to);
                if (slot >= 0) {
                    move((struct place){b, i}, to, slot);
                    return (struct place){b, i};
                }
            }
        }
    }
    return (struct place){NULL, 0};
}

// Rehashes the bottom level into `top`, a zeroed array in DRAM. False if an item finds no room.
static int rehash_bottom(const struct levels *old, struct bucket *top, uint64_t bits) {
    struct levels next = {{top, NULL}, {bits, 0}};
    for (uint64_t n = 0; n < 1ull << old->bits[1]; n++) {
        const struct bucket *from = &old->bucket[1][n];
        for (int i = 0; i < SLOTS; i++) {
            if (!(from->tokens >> i & 1)) {
                continue;
            }
            struct bucket *to = candidate(&next, 0, 0, from->slot[i].key);
            if (free_slot(to) < 0) {
                to = candidate(&next, 0, 1, from->slot[i].key);
            }
            int slot = free_slot(to);
            if (slot < 0) {
                return 0;
            }
            to->slot[slot] = from->slot[i];
            to->tokens |= 1ull << slot;
        }
    }
    return 1;
}

// The new top is built in DRAM and streamed into the pool in one go; until root->levels changes
// nothing refers to it.
static void expand(void) {
    struct levels *old = root->levels;
    uint64_t bits = old->bits[0] + (half_empty() ? 2 : 1);
    struct bucket *draft = NULL;
    for (;; bits++) {
        size_t bytes = sizeof(struct bucket) << bits;
        draft = (struct bucket *)aligned_alloc(PM_LINE, bytes);
        if (!draft) {
            pm_die("out of memory");
        }
        memset(draft, 0, bytes);
        if (rehash_bottom(old, draft, bits)) {
            break;
        }
        free(draft);
    }
    struct levels next = {{NULL, old->bucket[0]}, {bits, old->bits[0]}};
    next.bucket[0] = (struct bucket *)pm_alloc(level_bytes(&next, 0));
    pm_copy_nt(next.bucket[0], draft, level_bytes(&next, 0));
    free(draft);
    struct bucket *bottom = old->bucket[1];
    size_t bottom_bytes = level_bytes(old, 1);
#ifdef BUG_RESIZE_IN_PLACE
    pm_fence();
    *old = next; //~ BUG_RESIZE_IN_PLACE atomicity ahead //~ BUG_RESIZE_IN_PLACE atomicity needed
    pm_persist(old, sizeof *old);
#else
    pm_fence();
    struct levels *fresh = (struct levels *)pm_alloc(sizeof *fresh);
    *fresh = next;
    pm_persist(fresh, sizeof *fresh);
    pm_store(root->levels, fresh);
    pm_persist(&root->levels, sizeof root->levels);
    pm_free(old, sizeof *old);
#endif
    pm_free(bottom, bottom_bytes);
}

static struct op_result insert(uint64_t key, uint64_t number) {
    if (find(key).bucket) {
        return op_status(ST_EXISTS);
    }
    char value[16];
    format_value(value, number);
    for (;;) {
        struct place at = {NULL, -1};
        for (unsigned level = 0; level < 2 && at.slot < 0; level++) {
            struct bucket *b = candidate(root->levels, level, 0, key);
            struct bucket *other = candidate(root->levels, level, 1, key);
            if (__builtin_popcountll(other->tokens) < __builtin_popcountll(b->tokens)) {
                b = other;
            }
            at = (struct place){b, free_slot(b)};
        }
        if (at.slot < 0) {
            at = make_room(key);
        }
        if (at.bucket) {
            put(at.bucket, at.slot, key, value);
            count_item(1);
            return op_status(ST_OK);
        }
        expand();
    }
}

static struct op_result update(uint64_t key, uint64_t number) {
    struct place at = find(key);
    if (!at.bucket) {
        return op_status(ST_MISSING);
    }
    char value[16];
    format_value(value, number);
    struct bucket *b = at.bucket;
    int spare = free_slot(b);
    if (spare < 0) {
        // No room beside it: overwrite in place, with the new value kept until that is done.
        struct slot *s = &b->slot[at.slot];
        set_intent(INTENT_UPDATE, b, at.slot, value);
        memcpy(s->value, value, sizeof s->value);
        pm_persist(s->value, sizeof s->value);
        clear_intent();
        return op_status(ST_OK);
    }
    struct slot *s = &b->slot[spare];
    s->key = key;
    memcpy(s->value, value, sizeof s->value);
    pm_persist(s, sizeof *s);
#ifdef BUG_UPDATE_TWO_TOKENS
    pm_store(b->tokens, b->tokens & ~(1ull << at.slot)); //~ BUG_UPDATE_TWO_TOKENS atomicity ahead
    pm_persist(&b->tokens, sizeof b->tokens);
    pm_store(b->tokens, b->tokens | 1ull << spare); //~ BUG_UPDATE_TWO_TOKENS atomicity needed
#else
    // One store retires the old copy and admits the new one.
    pm_store(b->tokens, b->tokens ^ (1ull << at.slot | 1ull << spare));
#endif
    pm_persist(&b->tokens, sizeof b->tokens);
    return op_status(ST_OK);
}

static struct op_result get(uint64_t key) {
    struct place at = find(key);
    return at.bucket ? op_value(parse_value(at.bucket->slot[at.slot].value))
                     : op_status(ST_MISSING);
}

static struct op_result erase(uint64_t key) {
    struct place at = find(key);
    if (!at.bucket) {
#ifdef BUG_FENCE_ON_MISS
        pm_fence(); //~ BUG_FENCE_ON_MISS extra-fence
#endif
        return op_status(ST_MISSING);
    }
    uint64_t rest = at.bucket->tokens & ~(1ull << at.slot);
    pm_store(at.bucket->tokens, rest); //~ BUG_DELETE_NO_FLUSH missing-flush
    //~ BUG_DELETE_NO_FLUSH durability needed
#ifndef BUG_DELETE_NO_FLUSH
    pm_persist(&at.bucket->tokens, sizeof at.bucket->tokens);
#endif
    count_item(-1);
    return op_status(ST_OK);
}

// Finishes what the intent says was under way. Each step may be repeated after another crash.
static void recover(void) {
    struct intent *in = &root->intent;
    if (in->kind == INTENT_UPDATE) {
        struct slot *s = &in->bucket->slot[in->slot];
        memcpy(s->value, in->value, sizeof s->value);
        pm_persist(s->value, sizeof s->value);
        clear_intent();
    } else if (in->kind == INTENT_MOVE) {
        struct place from = {in->bucket, (int)in->slot};
        uint64_t bit = 1ull << from.slot;
        if (from.bucket->tokens & bit &&
            find_except(from.bucket->slot[from.slot].key, from).bucket) {
            pm_store(from.bucket->tokens, from.bucket->tokens & ~bit);
            pm_persist(&from.bucket->tokens, sizeof from.bucket->tokens);
        }
        clear_intent();
    }
}

static void create(void) {
    struct root *fresh = (struct root *)pm_alloc(sizeof *fresh);
    struct levels *l = (struct levels *)pm_alloc(sizeof *l);
    *l = (struct levels){{NULL, NULL}, {FIRST_BITS, FIRST_BITS - 1}};
    for (unsigned level = 0; level < 2; level++) {
        l->bucket[level] = (struct bucket *)pm_alloc(level_bytes(l, level));
        memset(l->bucket[level], 0, level_bytes(l, level));
        pm_flush(l->bucket[level], level_bytes(l, level));
    }
    pm_flush(l, sizeof *l);
    fresh->levels = l;
    memset(&fresh->intent, 0, sizeof fresh->intent);
    pm_flush(fresh, offsetof(struct root, intent) + sizeof fresh->intent);
    pm_fence();
    pm_set_root(fresh);
}

static void store_open(const char *path) {
    pm_open(path, 0x4c564c32);
    if (!pm_root()) {
        create();
    }
    root = (struct root *)pm_root();
    recover();
#ifndef BUG_ITEM_COUNT
    items = 0;
    for (unsigned level = 0; level < 2; level++) {
        for (uint64_t n = 0; n < 1ull << root->levels->bits[level]; n++) {
            items += (uint64_t)__builtin_popcountll(root->levels->bucket[level][n].tokens);
        }
    }
#endif
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
