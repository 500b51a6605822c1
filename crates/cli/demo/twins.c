// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Two words that must always be equal, changed by way of an undo log. `set N` sets both, `get`
// prints them. With -DBUG_RECOVERY, recovery empties the log before what it restored is durable:
// only a second crash shows it. With -DBUG_LOG, the log is not durable before the words change.

#define CRASHPOINT_MAIN
#include <crashpoint.h>

#include <emmintrin.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct line {
    uint64_t word;
    uint64_t unused[7];
};

static struct {
    struct line left, right, old, valid;
} *pool;

static void store(struct line *line, uint64_t word) {
    __atomic_store_n(&line->word, word, __ATOMIC_RELEASE);
}

static void flush(struct line *line) {
    __asm__ volatile(".byte 0x66; clflush %0" : "+m"(line->word)::"memory");
}

static void fence(void) {
    __asm__ volatile("sfence" ::: "memory");
}

void crashpoint_open(const char *path) {
    int file = open(path, O_RDWR | O_CREAT, 0644);
    if (file < 0 || ftruncate(file, 4096) != 0) {
        exit(1);
    }
    pool = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (pool == MAP_FAILED) {
        exit(1);
    }
    if (!pool->valid.word) {
        return;
    }
    store(&pool->left, pool->old.word);
    store(&pool->right, pool->old.word);
    flush(&pool->left);
    flush(&pool->right);
#ifndef BUG_RECOVERY
    fence();
#endif
    store(&pool->valid, 0);
    flush(&pool->valid);
    fence();
}

void crashpoint_apply(const char *operation) {
    unsigned long value;
    if (sscanf(operation, "set %lu", &value) == 1) {
        store(&pool->old, pool->left.word);
        flush(&pool->old);
#ifndef BUG_LOG
        fence();
#endif
        store(&pool->valid, 1);
        flush(&pool->valid);
        fence();
        store(&pool->left, value);
        flush(&pool->left);
        store(&pool->right, value);
        flush(&pool->right);
        fence();
        store(&pool->valid, 0);
        flush(&pool->valid);
        fence();
        puts("ok");
    } else {
        printf("%lu %lu\n", (unsigned long)pool->left.word, (unsigned long)pool->right.word);
    }
}

void crashpoint_close(void) {
    munmap(pool, 4096);
}
