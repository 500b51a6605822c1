// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Extendible hashing in the manner of CCEH: a directory, indexed by the first bits of the hash,
// points to segments; within a segment the last bits choose a cache line, and a pair may stand in
// that line or the next. A full window splits its segment. The left half stays where it is: pairs
// that went to the new segment are not erased but recognised by their hash and overwritten later.
//
// A split becomes final when the old segment's depth is raised. Until then the old segment holds
// everything, so recovery points all directory entries that its depth still claims back at it.
// The directory carries its own depth, so that one store replaces both.
//
// Pointers are raw, so the pool is mapped at a fixed address.

#define PM_FLUSH_CLFLUSH_ASM
#define PM_FENCE_MFENCE_ASM
#define PM_FIXED_BASE 0x200000000000ull
#include "pm.h"

#define DRIVER_OPS OPS_KV
#include "driver.h"

namespace {

constexpr unsigned kPerLine = 4;
constexpr unsigned kLines = 8;
constexpr unsigned kWindow = 2 * kPerLine;
constexpr unsigned kPairs = kLines * kPerLine;
constexpr uint64_t kFirstDepth = 1;

struct Pair {
    uint64_t value;
    uint64_t key; // 0: free
};

struct Segment {
    uint64_t depth; // how many bits of the hash all its keys share
    uint64_t unused[7];
    Pair pair[kPairs];
#ifdef BUG_LOCK_IN_SEGMENT
    uint32_t lock; // a cache line of its own
    uint32_t unused_lock[15];
#endif
};
constexpr size_t kSegmentData = offsetof(Segment, pair) + sizeof(Segment::pair);

struct Directory {
    uint64_t depth;
    uint64_t unused[7];
    Segment *segment[1]; // 2^depth of them

    static size_t bytes(uint64_t depth) {
        return offsetof(Directory, segment) + (sizeof(Segment *) << depth);
    }
};

struct Root {
    Directory *directory;
#ifdef BUG_DEPTH_BESIDE_DIRECTORY
    uint64_t depth;
    uint64_t unused[6];
#else
    uint64_t unused[7];
#endif
};

Root *root;

uint64_t hash(uint64_t key) {
    uint64_t x = key * 0x9e3779b97f4a7c15ull;
    x ^= x >> 31;
    return x * 0xd6e8feb86659fd93ull;
}

uint64_t directory_depth() {
#ifdef BUG_DEPTH_BESIDE_DIRECTORY
    return root->depth;
#else
    return root->directory->depth;
#endif
}

Segment *segment_of(uint64_t h) {
    return root->directory->segment[h >> (64 - directory_depth())];
}

// ---- locks --------------------------------------------------------------------------------

#ifndef BUG_LOCK_IN_SEGMENT
uint32_t locks[64][16];
#endif

uint32_t *lock_word(Segment *s) {
#ifdef BUG_LOCK_IN_SEGMENT
    return &s->lock;
#else
    return locks[reinterpret_cast<uintptr_t>(s) / PM_LINE % 64];
#endif
}

// The exchange locks the bus by itself and is a fence too.
uint32_t exchange(volatile uint32_t *word, uint32_t to) {
    __asm__ volatile("xchgl %0, %1" //~ BUG_LOCK_IN_SEGMENT unpersisted
                     // A crash while it is held shows at the callers.
                     : "+r"(to), "+m"(*word)::"memory");
    return to;
}

class SegmentLock {
  public:
    explicit SegmentLock(Segment *s) : word_(lock_word(s)) {
        while (exchange(word_, 1)) { //~ BUG_LOCK_IN_SEGMENT atomicity ahead
            //~ BUG_LOCK_IN_SEGMENT ordering ahead
            _mm_pause(); }
    }
    ~SegmentLock() { exchange(word_, 0); } //~ BUG_LOCK_IN_SEGMENT atomicity needed
    //~ BUG_LOCK_IN_SEGMENT ordering needed
    SegmentLock(const SegmentLock &) = delete; SegmentLock &operator=(const SegmentLock &) = delete;

  private:
    uint32_t *word_;
};

// ---- segments -----------------------------------------------------------------------------

Pair *window(Segment *s, uint64_t h, unsigned i) {
    unsigned start = static_cast<unsigned>(h % kLines) * kPerLine;
    return &s->pair[(start + i) % kPairs];
}

Pair *find(Segment *s, uint64_t h, uint64_t key) {
    for (unsigned i = 0; i < kWindow; i++) {
        if (window(s, h, i)->key == key) {
            return window(s, h, i);
        }
    }
    return nullptr;
}

// Whether the key in a pair belongs to the segment that hash h belongs to, or is left over from
// before a split.
bool is_resident(const Pair &p, uint64_t h, uint64_t depth) {
    return p.key && (hash(p.key) ^ h) >> (64 - depth) == 0;
}

Pair *find_free(Segment *s, uint64_t h) {
    for (unsigned i = 0; i < kWindow; i++) {
        if (!is_resident(*window(s, h, i), h, s->depth)) {
            return window(s, h, i);
        }
    }
    return nullptr;
}

Segment *new_segment(uint64_t depth) {
    Segment *s = static_cast<Segment *>(pm_alloc(sizeof(Segment)));
    memset(static_cast<void *>(s), 0, kSegmentData);
    s->depth = depth;
    return s;
}

void double_directory() {
    Directory *old = root->directory;
    uint64_t depth = directory_depth();
    Directory *d = static_cast<Directory *>(pm_alloc(Directory::bytes(depth + 1)));
    d->depth = depth + 1;
    for (uint64_t i = 0; i < 2ull << depth; i++) {
        d->segment[i] = old->segment[i / 2];
    }
    pm_persist(d, Directory::bytes(depth + 1));
#ifdef BUG_DEPTH_BESIDE_DIRECTORY
    pm_store(root->directory, d); //~ BUG_DEPTH_BESIDE_DIRECTORY atomicity ahead
    pm_persist(&root->directory, sizeof root->directory);
    pm_store(root->depth, depth + 1); //~ BUG_DEPTH_BESIDE_DIRECTORY atomicity needed
    pm_persist(&root->depth, sizeof root->depth);
#else
    pm_store(root->directory, d);
    pm_persist(&root->directory, sizeof root->directory);
#endif
    pm_free(old, Directory::bytes(depth));
}

void raise_depth(Segment *s, uint64_t depth) {
    pm_store(s->depth, depth); //~ BUG_DEPTH_BEFORE_ENTRIES ordering ahead
    pm_persist(&s->depth, sizeof s->depth);
}

// Moves the pairs whose next bit is set into a new segment. They keep their places, so there is
// always room.
void split(Segment *s, uint64_t h) {
    uint64_t depth = s->depth;
    if (depth == directory_depth()) {
        double_directory();
    }
    Segment *right = new_segment(depth + 1);
    for (unsigned i = 0; i < kPairs; i++) {
        const Pair &p = s->pair[i];
        if (is_resident(p, h, depth) && hash(p.key) >> (63 - depth) & 1) {
            right->pair[i] = p;
        }
    }
    pm_persist(right, kSegmentData);
#ifdef BUG_DEPTH_BEFORE_ENTRIES
    raise_depth(s, depth + 1);
#endif
    uint64_t span = 1ull << (directory_depth() - depth);
    uint64_t first = h >> (64 - depth) << (directory_depth() - depth);
    Segment **upper = &root->directory->segment[first + span / 2];
    for (uint64_t i = 0; i < span / 2; i++) {
        pm_store(upper[i], right); //~ BUG_DEPTH_BEFORE_ENTRIES ordering needed
    }
    pm_persist(upper, span / 2 * sizeof *upper);
#ifndef BUG_DEPTH_BEFORE_ENTRIES
    raise_depth(s, depth + 1);
#endif
}

// ---- operations ---------------------------------------------------------------------------

void put(Pair *p, uint64_t key, uint64_t value) {
    // Value before key: they share a line, so they become durable in this order.
#ifdef BUG_KEY_BEFORE_VALUE
    pm_store(p->key, key); //~ BUG_KEY_BEFORE_VALUE ordering ahead
    pm_store(p->value, value); //~ BUG_KEY_BEFORE_VALUE ordering needed
#else
    pm_store(p->value, value);
    pm_store(p->key, key);
#endif
#ifdef BUG_PAIR_FLUSHED_TWICE
    pm_flush(&p->value, sizeof p->value);
    pm_flush(&p->key, sizeof p->key); //~ BUG_PAIR_FLUSHED_TWICE extra-flush
#else
    pm_flush(p, sizeof *p);
#endif
    pm_fence();
}

op_result insert(uint64_t key, uint64_t value) {
    uint64_t h = hash(key);
    for (;;) {
        Segment *s = segment_of(h);
        SegmentLock lock(s);
        if (find(s, h, key)) {
            return op_status(ST_EXISTS);
        }
        if (Pair *p = find_free(s, h)) {
            put(p, key, value);
            return op_status(ST_OK);
        }
#ifdef BUG_FENCE_BEFORE_SPLIT
        pm_fence(); //~ BUG_FENCE_BEFORE_SPLIT extra-fence
#endif
        split(s, h);
    }
}

op_result update(uint64_t key, uint64_t value) {
    uint64_t h = hash(key);
    Segment *s = segment_of(h);
    SegmentLock lock(s);
    Pair *p = find(s, h, key);
    if (!p) {
        return op_status(ST_MISSING);
    }
    pm_store(p->value, value);
    pm_persist(&p->value, sizeof p->value);
    return op_status(ST_OK);
}

op_result get(uint64_t key) {
    uint64_t h = hash(key);
    Pair *p = find(segment_of(h), h, key);
    return p ? op_value(p->value) : op_status(ST_MISSING);
}

op_result erase(uint64_t key) {
    uint64_t h = hash(key);
    Segment *s = segment_of(h);
    SegmentLock lock(s);
    Pair *p = find(s, h, key);
    if (!p) {
        return op_status(ST_MISSING);
    }
    pm_store(p->key, uint64_t{0}); //~ BUG_DELETE_NO_FLUSH missing-flush
    //~ BUG_DELETE_NO_FLUSH durability needed
#ifndef BUG_DELETE_NO_FLUSH
    pm_persist(&p->key, sizeof p->key);
#endif
    return op_status(ST_OK);
}

// ---- opening ------------------------------------------------------------------------------

// Undoes a split that did not reach its last step: every entry that a segment's depth claims
// points to that segment.
void recover() {
    Directory *d = root->directory;
    uint64_t entries = 1ull << directory_depth();
    Segment **stored = nullptr; // the last entry corrected, its line not flushed yet
    for (uint64_t i = 0; i < entries;) {
        Segment *s = d->segment[i];
        uint64_t end = i + (entries >> s->depth);
        for (; i < end; i++) {
            if (d->segment[i] == s) {
                continue;
            }
            if (stored && !pm_same_line(stored, &d->segment[i])) {
                pm_flush(stored, sizeof *stored);
            }
            pm_store(d->segment[i], s);
            stored = &d->segment[i];
        }
    }
    if (stored) {
        pm_persist(stored, sizeof *stored);
    }
}

void create() {
    Root *fresh = static_cast<Root *>(pm_alloc(sizeof(Root)));
    Directory *d = static_cast<Directory *>(pm_alloc(Directory::bytes(kFirstDepth)));
    d->depth = kFirstDepth;
    for (uint64_t i = 0; i < 1ull << kFirstDepth; i++) {
        d->segment[i] = new_segment(kFirstDepth);
        pm_flush(d->segment[i], kSegmentData);
    }
    pm_flush(d, Directory::bytes(kFirstDepth));
    fresh->directory = d;
#ifdef BUG_DEPTH_BESIDE_DIRECTORY
    fresh->depth = kFirstDepth;
#endif
    pm_flush(&fresh->directory, sizeof fresh->directory);
    pm_fence();
    pm_set_root(fresh);
}

} // namespace

static void store_open(const char *path) {
    pm_open(path, 0x45585448);
    if (!pm_root()) {
        create();
    }
    root = static_cast<Root *>(pm_root());
    recover();
}

static op_result store_apply(const op *op) {
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

static void store_close() {
    pm_close();
}
