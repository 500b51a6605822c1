// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A B+-tree in the manner of FAST and FAIR: entries are kept sorted by shifting them within the
// node with 8-byte stores, in such an order that at every moment each key is found exactly once.
// An entry whose pointer equals its left neighbour's is void, which is what a shift in progress
// looks like. Nodes of a level are linked; a split first links the new node, then cuts the old
// one, then tells the parent, so a half-done split is still a searchable tree.
//
// Recovery runs on every opening: it takes void entries out, cuts nodes whose upper half lives in
// the sibling already, and tells parents of children they do not know.
//
// Pointers are raw, so the pool is mapped at a fixed address.

#define PM_FLUSH_CLWB_ASM
#define PM_FIXED_BASE 0x200000000000ull
#include "pm.h"

#define DRIVER_OPS (OPS_KV | 1u << OP_SCAN)
#include "driver.h"

namespace {

constexpr int kEntries = 28;
constexpr int kMaxUsed = kEntries - 1; // one is always left to end the list
constexpr int kPerLine = 4;

// Values live outside the nodes, so that the pointers in a leaf differ from each other.
struct Record {
    uint64_t value;
    uint64_t unused[7];
};

struct Entry {
    uint64_t key;
    void *ptr; // child or record; null ends the list
};

struct Node {
    void *leftmost; // child left of all keys; a leaf has itself here, which no entry points to
    Node *sibling;
    uint64_t level; // 0 for leaves
    uint64_t low;   // no key below this belongs here
    uint64_t unused[4];
    Entry entry[kEntries];

    void *left_of(int i) const { return i ? entry[i - 1].ptr : leftmost; }
    bool is_void(int i) const { return entry[i].ptr == left_of(i); }
    bool is_leaf() const { return level == 0; }

    int count() const {
        int n = 0;
        while (entry[n].ptr) {
            n++;
        }
        return n;
    }
};
static_assert(sizeof(Node) == 512 && offsetof(Node, entry) == PM_LINE,
              "four entries fill a cache line");

struct Root {
    Node *top;
    uint64_t unused[7];
#ifdef BUG_HEIGHT_IN_POOL
    uint64_t height; // a cache line of its own
    uint64_t unused_height[7];
#endif
};

Root *root;

// ---- searching ----------------------------------------------------------------------------

// The node of the level that the key belongs to.
Node *find_node(uint64_t key, uint64_t level) {
    Node *n = root->top;
    for (;;) {
        while (n->sibling && key >= n->sibling->low) {
            n = n->sibling;
        }
        if (n->level == level) {
            return n;
        }
        void *child = n->leftmost;
        for (int i = 0; n->entry[i].ptr; i++) {
            if (n->is_void(i)) {
                continue;
            }
            if (key < n->entry[i].key) {
                break;
            }
            child = n->entry[i].ptr;
        }
        n = static_cast<Node *>(child);
    }
}

int find_entry(const Node *n, uint64_t key) {
    for (int i = 0; n->entry[i].ptr; i++) {
        if (n->entry[i].key == key && !n->is_void(i)) {
            return i;
        }
    }
    return -1;
}

// ---- shifting -----------------------------------------------------------------------------

// Inserts into a node that has room. Stores to one line become durable in program order; before
// the shift goes on to another line, the line it leaves is made durable.
void insert_entry(Node *node, uint64_t key, void *ptr) {
#ifdef BUG_FENCE_BEFORE_SHIFT
    pm_fence(); //~ BUG_FENCE_BEFORE_SHIFT extra-fence
#endif
    Entry *e = node->entry;
    int n = node->count();
    int at = n;
    while (at > 0 && e[at - 1].key > key) {
        at--;
    }
    if (e[n + 1].ptr) { // left over from before a split
        pm_store(e[n + 1].ptr, static_cast<void *>(nullptr));
        if ((n + 1) % kPerLine == 0) {
            pm_persist(&e[n + 1], sizeof e[n + 1]);
        }
    }
    for (int i = n; i > at; i--) {
        pm_store(e[i].ptr, e[i - 1].ptr); // void until the next store to the left
        pm_store(e[i].key, e[i - 1].key);
        if (i % kPerLine == 0) {
            pm_persist(&e[i], sizeof e[i]);
        }
    }
#ifndef BUG_KEY_UNDER_OLD_POINTER
    if (at < n) {
        pm_store(e[at].ptr, node->left_of(at));
    }
#endif
    pm_store(e[at].key, key); //~ BUG_KEY_UNDER_OLD_POINTER atomicity ahead
    pm_store(e[at].ptr, ptr); //~ BUG_KEY_UNDER_OLD_POINTER atomicity needed
    pm_persist(&e[at], sizeof e[at]);
}

// Closes the gap of a void entry.
void close_gap(Node *node, int at) {
    Entry *e = node->entry;
    int n = node->count();
    for (int i = at; i < n; i++) {
        if (i + 1 < n) {
            pm_store(e[i].key, e[i + 1].key); //~ BUG_SHIFT_ONE_FENCE ordering ahead
            //~ BUG_SHIFT_ONE_FENCE ordering needed
        }
        pm_store(e[i].ptr, e[i + 1].ptr); //~ BUG_SHIFT_ONE_FENCE ordering needed
        //~ BUG_SHIFT_ONE_FENCE ordering ahead
#ifndef BUG_SHIFT_ONE_FENCE
        if (i % kPerLine == kPerLine - 1 || i == n - 1) {
            pm_persist(&e[i], sizeof e[i]);
        }
#endif
    }
#ifdef BUG_SHIFT_ONE_FENCE
    // All lines at once: a later line may be durable before an earlier one.
    pm_persist(&e[at], static_cast<size_t>(n - at) * sizeof *e);
#endif
}

void remove_entry(Node *node, int at) {
    if (node->entry[at + 1].ptr) {
        pm_store(node->entry[at].ptr, node->left_of(at));
    }
    close_gap(node, at);
}

// ---- splitting ----------------------------------------------------------------------------

Node *new_node(uint64_t level, uint64_t low) {
    Node *n = static_cast<Node *>(pm_alloc(sizeof(Node)));
    memset(static_cast<void *>(n), 0, sizeof *n);
    n->level = level;
    n->low = low;
    return n;
}

void insert_at(uint64_t level, uint64_t key, void *ptr);

void note_height(uint64_t height) {
#ifdef BUG_HEIGHT_IN_POOL
    root->height = height; //~ BUG_HEIGHT_IN_POOL unpersisted
#else
    (void)height; // anyone can read it off the top node
#endif
}

// Tells the level above of a node that so far only its left neighbour knows.
void adopt(Node *left, Node *right) {
    if (left != root->top) {
        insert_at(left->level + 1, right->low, right);
        return;
    }
    Node *top = new_node(left->level + 1, 0);
    top->leftmost = left;
    top->entry[0] = Entry{right->low, right};
    pm_persist(top, sizeof *top);
    pm_store(root->top, top);
    pm_persist(&root->top, sizeof root->top);
    note_height(top->level + 1);
}

// Ends the node's list before the entry; what follows lives in the sibling.
void cut(Node *node, int at) {
    pm_store(node->entry[at].ptr, static_cast<void *>(nullptr));
    //~ BUG_CUT_BEFORE_LINK ordering ahead //~ BUG_LINK_NO_FLUSH ordering ahead
#ifdef BUG_SPLIT_FLUSHES_NODE
    pm_persist(node, sizeof *node); //~ BUG_SPLIT_FLUSHES_NODE extra-flush
#else
    pm_persist(&node->entry[at].ptr, sizeof(void *));
#endif
}

void split(Node *node) {
    int n = node->count();
    int middle = n / 2;
    int from = node->is_leaf() ? middle : middle + 1;
    Node *right = new_node(node->level, node->entry[middle].key);
    right->leftmost = node->is_leaf() ? right : node->entry[middle].ptr;
    right->sibling = node->sibling;
    memcpy(right->entry, &node->entry[from], static_cast<size_t>(n - from) * sizeof(Entry));
    pm_persist(right, sizeof *right);
#ifdef BUG_CUT_BEFORE_LINK
    cut(node, middle);
#endif
    pm_store(node->sibling, right); //~ BUG_LINK_NO_FLUSH missing-flush
    //~ BUG_CUT_BEFORE_LINK ordering needed //~ BUG_LINK_NO_FLUSH ordering needed
#ifndef BUG_LINK_NO_FLUSH
    pm_persist(&node->sibling, sizeof node->sibling);
#endif
#ifndef BUG_CUT_BEFORE_LINK
    cut(node, middle);
#endif
    adopt(node, right);
}

void insert_at(uint64_t level, uint64_t key, void *ptr) {
    for (;;) {
        Node *n = find_node(key, level);
        if (n->count() < kMaxUsed) {
            insert_entry(n, key, ptr);
            return;
        }
        split(n);
    }
}

// ---- operations ---------------------------------------------------------------------------

op_result insert(uint64_t key, uint64_t value) {
    if (find_entry(find_node(key, 0), key) >= 0) {
        return op_status(ST_EXISTS);
    }
    Record *r = static_cast<Record *>(pm_alloc(sizeof(Record)));
    r->value = value;
    pm_persist(&r->value, sizeof r->value);
    insert_at(0, key, r);
    return op_status(ST_OK);
}

op_result update(uint64_t key, uint64_t value) {
    Node *leaf = find_node(key, 0);
    int at = find_entry(leaf, key);
    if (at < 0) {
        return op_status(ST_MISSING);
    }
    Record *r = static_cast<Record *>(leaf->entry[at].ptr);
    pm_store(r->value, value); //~ BUG_UPDATE_NO_FENCE durability needed
    pm_flush(&r->value, sizeof r->value); //~ BUG_UPDATE_NO_FENCE missing-fence
#ifndef BUG_UPDATE_NO_FENCE
    pm_fence();
#endif
    return op_status(ST_OK);
}

op_result get(uint64_t key) {
    Node *leaf = find_node(key, 0);
    int at = find_entry(leaf, key);
    return at < 0 ? op_status(ST_MISSING)
                  : op_value(static_cast<Record *>(leaf->entry[at].ptr)->value);
}

// Leaves are not merged: an empty one waits for keys of its range.
op_result erase(uint64_t key) {
    Node *leaf = find_node(key, 0);
    int at = find_entry(leaf, key);
    if (at < 0) {
        return op_status(ST_MISSING);
    }
    Record *r = static_cast<Record *>(leaf->entry[at].ptr);
    remove_entry(leaf, at);
    pm_free(r, sizeof *r);
    return op_status(ST_OK);
}

// The sum of up to `limit` values from the key on.
op_result scan(uint64_t key, uint64_t limit) {
    uint64_t sum = 0;
    for (Node *n = find_node(key, 0); n && limit; n = n->sibling) {
        for (int i = 0; n->entry[i].ptr && limit; i++) {
            if (n->entry[i].key >= key && !n->is_void(i)) {
                sum += static_cast<Record *>(n->entry[i].ptr)->value;
                limit--;
            }
        }
    }
    return op_value(sum);
}

// ---- recovery -----------------------------------------------------------------------------

void repair_node(Node *node) {
    for (int i = 0; node->entry[i].ptr;) {
        if (node->is_void(i)) {
            close_gap(node, i);
        } else {
            i++;
        }
    }
    for (int i = 0; node->sibling && node->entry[i].ptr; i++) {
        if (node->entry[i].key >= node->sibling->low) {
            cut(node, i);
        }
    }
}

// From the top down, so that the level above is whole before a node is inserted there.
void recover() {
    while (root->top->sibling) {
        repair_node(root->top);
        adopt(root->top, root->top->sibling);
    }
    for (Node *head = root->top;; head = static_cast<Node *>(head->leftmost)) {
        for (Node *n = head; n; n = n->sibling) {
            repair_node(n);
            if (n != head && find_entry(find_node(n->low, n->level + 1), n->low) < 0 &&
                find_node(n->low, n->level + 1)->leftmost != n) {
                insert_at(n->level + 1, n->low, n);
            }
        }
        if (head->is_leaf()) {
            break;
        }
    }
}

void create() {
    Root *fresh = static_cast<Root *>(pm_alloc(sizeof(Root)));
    Node *leaf = new_node(0, 0);
    leaf->leftmost = leaf;
    pm_flush(leaf, sizeof *leaf);
    fresh->top = leaf;
    pm_flush(&fresh->top, sizeof fresh->top);
    pm_fence();
    pm_set_root(fresh);
}

} // namespace

static void store_open(const char *path) {
    pm_open(path, 0x42505452);
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
    case OP_SCAN:
        return scan(op->a, op->b);
    default:
        return get(op->a);
    }
}

static void store_close() {
    pm_close();
}
