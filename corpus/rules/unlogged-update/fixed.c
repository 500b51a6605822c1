// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Both accounts are logged before they change.
//
// The transaction calls carry the names of libpmemobj's, so that they are recognised by name; they
// are a small undo log of one transaction's ranges. What they store themselves is the library's
// business, not an update made in the transaction.

#include <fcntl.h>
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct account {
    _Alignas(64) int64_t balance;
};

struct pool {
    struct account from, to;
    _Alignas(64) uint64_t entries; // how many of the log's entries are valid
    struct {
        _Alignas(64) uint64_t offset;
        uint64_t size;
        char old[48];
    } log[8];
};

static struct pool *pool;

__attribute__((target("clflushopt"))) static void persist(void *p) {
    _mm_clflushopt(p);
    _mm_sfence();
}

__attribute__((noinline)) int pmemobj_tx_begin(void *pop, void *env, ...) {
    pool = pop;
    return env != NULL; // no jump buffer: nothing here aborts
}

__attribute__((noinline)) int pmemobj_tx_add_range_direct(const void *ptr, size_t size) {
    uint64_t n = pool->entries;
    pool->log[n].offset = (uint64_t)((const char *)ptr - (char *)pool);
    pool->log[n].size = size;
    memcpy(pool->log[n].old, ptr, size);
    persist(&pool->log[n]);
    pool->entries = n + 1;
    persist(&pool->entries);
    return 0;
}

__attribute__((noinline)) void pmemobj_tx_commit(void) {
    if (pool->entries == 0) {
        return;
    }
    for (uint64_t i = 0; i < pool->entries; i++) {
        uint64_t line = pool->log[i].offset / 64;
        int seen = 0;
        for (uint64_t j = 0; j < i; j++) {
            seen |= pool->log[j].offset / 64 == line;
        }
        if (!seen) {
            persist((char *)pool + line * 64);
        }
    }
    pool->entries = 0;
    persist(&pool->entries);
}

__attribute__((noinline)) int pmemobj_tx_end(void) {
    return 0;
}

int main(int argc, char **argv) {
    int fd = argc == 2 ? open(argv[1], O_RDWR | O_CREAT, 0644) : -1;
    if (fd < 0 || ftruncate(fd, 4096) != 0) {
        return 1;
    }
    struct pool *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        return 1;
    }
    pmemobj_tx_begin(p, NULL);
    pmemobj_tx_add_range_direct(&p->from, sizeof p->from.balance);
    p->from.balance -= 40;
    pmemobj_tx_add_range_direct(&p->to, sizeof p->to.balance);
    p->to.balance += 40;
    pmemobj_tx_commit();
    pmemobj_tx_end();
    return 0;
}
