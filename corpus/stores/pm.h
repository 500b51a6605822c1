// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A pool file mapped into memory, a persistent allocator, and the flush and fence helpers that
// the stores of the corpus share. Real code flushes in many encodings, so a store picks one by
// defining PM_FLUSH_* and PM_FENCE_* before it includes this file:
//
//   PM_FLUSH_CLFLUSH       intrinsic             PM_FLUSH_CLFLUSH_ASM     clflush
//   PM_FLUSH_CLFLUSHOPT    intrinsic             PM_FLUSH_CLFLUSHOPT_ASM  .byte 0x66; clflush
//   PM_FLUSH_CLWB          intrinsic             PM_FLUSH_CLWB_ASM        .byte 0x66; xsaveopt
//   PM_FENCE_SFENCE_ASM, PM_FENCE_MFENCE_ASM; the sfence intrinsic if neither is defined
//
// PM_FIXED_BASE, if defined, is the address the pool must be mapped at: the store keeps raw
// pointers. Without it the store keeps offsets, and the pool may lie anywhere.
//
// Works as C11 and as C++17.

#ifndef CORPUS_PM_H
#define CORPUS_PM_H

#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PM_LINE 64u
#define PM_MAGIC 0x31304c4f4f505043ull
#ifndef PM_POOL_SIZE
#define PM_POOL_SIZE (1ull << 30)
#endif
#define PM_DATA_START 4096u

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

// An 8-byte store the compiler may neither split nor move before an earlier store. Stores to one
// cache line become durable in program order, so this is what "commit word last" rests on. It is
// a macro so that the store belongs to the line that uses it.
#define pm_store(lvalue, value) __atomic_store_n(&(lvalue), (value), __ATOMIC_RELEASE)

// ---- flush and fence ----------------------------------------------------------------------

#if defined(PM_FLUSH_CLWB)
__attribute__((target("clwb"))) static inline void pm_flush_line(const void *p) {
    _mm_clwb((void *)(uintptr_t)p);
}
#elif defined(PM_FLUSH_CLFLUSHOPT)
__attribute__((target("clflushopt"))) static inline void pm_flush_line(const void *p) {
    _mm_clflushopt((void *)(uintptr_t)p);
}
#elif defined(PM_FLUSH_CLFLUSH)
static inline void pm_flush_line(const void *p) {
    _mm_clflush(p);
}
#elif defined(PM_FLUSH_CLWB_ASM)
// The operand is only read, yet declared read-write: the common idiom, kept on purpose.
static inline void pm_flush_line(const void *p) {
    __asm__ volatile(".byte 0x66; xsaveopt %0" : "+m"(*(volatile char *)(uintptr_t)p)::"memory");
}
#elif defined(PM_FLUSH_CLFLUSHOPT_ASM)
static inline void pm_flush_line(const void *p) {
    __asm__ volatile(".byte 0x66; clflush %0" : "+m"(*(volatile char *)(uintptr_t)p)::"memory");
}
#elif defined(PM_FLUSH_CLFLUSH_ASM)
static inline void pm_flush_line(const void *p) {
    __asm__ volatile("clflush %0" : "+m"(*(volatile char *)(uintptr_t)p)::"memory");
}
#else
#error "define one of PM_FLUSH_*"
#endif

#if defined(PM_FENCE_MFENCE_ASM)
static inline void pm_fence(void) {
    __asm__ volatile("mfence" ::: "memory");
}
#elif defined(PM_FENCE_SFENCE_ASM)
static inline void pm_fence(void) {
    __asm__ volatile("sfence" ::: "memory");
}
#else
static inline void pm_fence(void) {
    _mm_sfence();
}
#endif

// Flushes every line of the range once. The caller has stored to each of those lines.
static inline void pm_flush(const void *addr, size_t len) {
    uintptr_t line = (uintptr_t)addr & ~(uintptr_t)(PM_LINE - 1);
    uintptr_t end = (uintptr_t)addr + len;
    for (; line < end; line += PM_LINE) {
        pm_flush_line((const void *)line);
    }
}

static inline void pm_persist(const void *addr, size_t len) {
    pm_flush(addr, len);
    pm_fence();
}

static inline int pm_same_line(const void *a, const void *b) {
    return (((uintptr_t)a ^ (uintptr_t)b) & ~(uintptr_t)(PM_LINE - 1)) == 0;
}

// Copies past the cache; durable after the next fence, without a flush. Both sides are 16-byte
// aligned and the length is a multiple of 16.
static inline void pm_copy_nt(void *dst, const void *src, size_t len) {
    __m128i *to = (__m128i *)dst;
    const __m128i *from = (const __m128i *)src;
    for (size_t i = 0; i < len / sizeof(__m128i); i++) {
        _mm_stream_si128(to + i, _mm_load_si128(from + i));
        //~ BUG_TAIL_WITH_MESSAGE ordering needed
    }
}

// ---- pool ---------------------------------------------------------------------------------

enum { PM_SMALL_CLASSES = 16, PM_CLASSES = 40 };

struct pm_header {
    // Line 0 is written once, magic last: a pool without it was never finished.
    uint64_t magic;
    uint64_t kind;
    uint64_t size;
    uint64_t base;
    uint64_t unused0[4];
    // Line 1.
    uint64_t top;  // offset of the first byte never handed out
    uint64_t root; // offset of the store's root object, 0 until it is complete
    uint64_t unused1[6];
    // One list of free blocks per size class, linked through the blocks' first word.
    uint64_t free_head[PM_CLASSES];
};

static struct pm_header *pm_pool;

static inline void pm_die(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static inline void *pm_at(uint64_t offset) {
    return offset ? (char *)pm_pool + offset : NULL;
}

static inline uint64_t pm_offset(const void *p) {
    return p ? (uint64_t)((const char *)p - (const char *)pm_pool) : 0;
}

static inline void pm_require_cpu(void) {
    unsigned a, b = 0, c, d;
    __get_cpuid_count(7, 0, &a, &b, &c, &d);
    if (!(b & (1u << 23)) || !(b & (1u << 24))) {
        pm_die("this program needs a processor with clflushopt and clwb");
    }
}

// Maps the pool, creating it if need be. `kind` keeps one store from opening another's pool.
static inline void pm_open(const char *path, uint64_t kind) {
    pm_require_cpu();
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) {
        perror(path);
        exit(1);
    }
    if ((uint64_t)st.st_size < PM_POOL_SIZE && ftruncate(fd, (off_t)PM_POOL_SIZE) != 0) {
        perror(path);
        exit(1);
    }
#ifdef PM_FIXED_BASE
    void *want = (void *)PM_FIXED_BASE;
    int flags = MAP_SHARED | MAP_FIXED_NOREPLACE;
#else
    void *want = NULL;
    int flags = MAP_SHARED;
#endif
    void *at = mmap(want, PM_POOL_SIZE, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (at == MAP_FAILED || (want && at != want)) {
        pm_die("cannot map the pool (pools with raw pointers need their fixed address)");
    }
    close(fd);
    pm_pool = (struct pm_header *)at;
    if (pm_pool->magic == PM_MAGIC) {
        if (pm_pool->kind != kind || pm_pool->size != PM_POOL_SIZE ||
            pm_pool->base != (uint64_t)(uintptr_t)want) {
            pm_die("the pool belongs to another store");
        }
        return;
    }
    pm_pool->kind = kind;
    pm_pool->size = PM_POOL_SIZE;
    pm_pool->base = (uint64_t)(uintptr_t)want;
    pm_pool->top = PM_DATA_START;
    pm_flush(pm_pool, 2 * PM_LINE);
    pm_fence();
    pm_store(pm_pool->magic, PM_MAGIC);
    pm_persist(&pm_pool->magic, sizeof pm_pool->magic);
}

static inline void pm_close(void) {
    munmap(pm_pool, PM_POOL_SIZE);
    pm_pool = NULL;
}

static inline void *pm_root(void) {
    return pm_at(pm_pool->root);
}

// Publishes the root object; it is complete and durable by now.
static inline void pm_set_root(const void *root) {
    pm_store(pm_pool->root, pm_offset(root));
    pm_persist(&pm_pool->root, sizeof pm_pool->root);
}

// ---- allocator ----------------------------------------------------------------------------
//
// Whole cache lines, so that no two objects share one. A block leaves its list, durably, before
// the caller links it, and enters it after the caller has unlinked it: a crash can leak a block
// but never hand it out twice. The contents of a new block are undefined.

static inline unsigned pm_class(size_t size, size_t *rounded) {
    size_t lines = (size + PM_LINE - 1) / PM_LINE;
    if (lines <= PM_SMALL_CLASSES) {
        *rounded = lines * PM_LINE;
        return (unsigned)lines - 1;
    }
    unsigned log = 64 - (unsigned)__builtin_clzll(size - 1);
    *rounded = (size_t)1 << log;
    return PM_SMALL_CLASSES + log - 11;
}

static inline void *pm_alloc(size_t size) {
    size_t rounded;
    uint64_t *head = &pm_pool->free_head[pm_class(size, &rounded)];
    if (*head) {
        void *block = pm_at(*head);
        pm_store(*head, *(uint64_t *)block);
        pm_persist(head, sizeof *head);
        return block;
    }
    uint64_t offset = pm_pool->top;
    if (offset + rounded > PM_POOL_SIZE) {
        pm_die("the pool is full");
    }
    pm_store(pm_pool->top, offset + rounded);
    pm_persist(&pm_pool->top, sizeof pm_pool->top);
    return pm_at(offset);
}

static inline void pm_free(void *block, size_t size) {
    size_t rounded;
    uint64_t *head = &pm_pool->free_head[pm_class(size, &rounded)];
    *(uint64_t *)block = *head; //~ BUG_COMMIT_NO_FENCE ordering ahead
    pm_persist(block, sizeof(uint64_t));
    pm_store(*head, pm_offset(block));
    pm_persist(head, sizeof *head);
}

#endif
