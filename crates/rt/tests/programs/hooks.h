// What the instrumenter emits, written by hand: a module with a gate, and hooks called like
// instrumented code calls them. One object of a program includes it.
#ifndef HOOKS_H
#define HOOKS_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

struct gate {
    uint32_t level, reserved;
    uint64_t pm_base, pm_span, load_span;
    uint32_t detail, reserved_too;
};

struct module {
    uint32_t abi_version, site_count;
    uint8_t model_id[16];
    uint32_t site_base, callee_count;
    struct gate *gate;
    uint8_t *watch;
    const char *callee_names;
    const void *const *globals;
    uint32_t global_count, reserved;
};

struct frame {
    uint32_t site, context;
};

struct thread {
    struct frame *frame;
    uint8_t *flow_cursor, *flow_limit;
    uint32_t pending, external_site;
};

#define WEAK __attribute__((weak))
WEAK void __crashpoint_register(struct module *);
WEAK void __crashpoint_unregister(struct module *);
WEAK struct thread *__crashpoint_enter(uint32_t);
WEAK void __crashpoint_store(struct thread *, uint32_t, void *, uint64_t, uint32_t);
WEAK void __crashpoint_range(struct thread *, uint32_t, void *, uint64_t, uint32_t);
WEAK void __crashpoint_vector(struct thread *, uint32_t, void *, const void *, uint32_t);
WEAK void __crashpoint_load(struct thread *, uint32_t, const void *, uint64_t);
WEAK void __crashpoint_flush(struct thread *, uint32_t, const void *, uint32_t);
WEAK void __crashpoint_fence(struct thread *, uint32_t, uint32_t);
WEAK void __crashpoint_opaque(struct thread *, uint32_t);
WEAK void __crashpoint_call(struct thread *, uint32_t, const uint64_t *, uint32_t);
WEAK void __crashpoint_return(struct thread *, uint32_t, uint64_t);
WEAK void __crashpoint_sync(struct thread *, uint32_t, void *, uint32_t);
WEAK void __crashpoint_resync(struct thread *, struct frame *, uint32_t);
WEAK void __crashpoint_flow_full(struct thread *);

#ifndef ABI_VERSION
#define ABI_VERSION 1
#endif

enum { PLAIN, NON_TEMPORAL, ATOMIC, LOCKED, MEMORY, ASSEMBLY };

__attribute__((visibility("hidden"))) struct gate gate;
static uint8_t watched[3];
static int some_global;
static const void *const globals[] = {&some_global, 0};
static struct module module = {
    .abi_version = ABI_VERSION,
    .site_count = 1000,
    .model_id = {0xab, 1, 2, 3},
    .callee_count = 3,
    .gate = &gate,
    .watch = watched,
    .callee_names = "pmemobj_tx_begin\0puts\0my_log",
    .globals = globals,
    .global_count = 2,
};

__attribute__((constructor(101))) static void hooks_register(void) {
    if (__crashpoint_register) {
        __crashpoint_register(&module);
    }
}

__attribute__((destructor(101))) static void hooks_unregister(void) {
    if (__crashpoint_unregister) {
        __crashpoint_unregister(&module);
    }
}

#define SITE(n) (module.site_base + (n))

// Enters a function whose site is `n`; leaves it again.
static inline struct thread *enter(uint32_t n) {
    return gate.level ? __crashpoint_enter(SITE(n)) : NULL;
}

static inline void leave(struct thread *t) {
    if (t) {
        t->frame--;
    }
}

// Notes that the function is about to make the call at site `n`, of other code if `external`.
static inline void calling(struct thread *t, uint32_t n) {
    if (t) {
        t->frame->site = SITE(n);
        t->external_site = SITE(n);
    }
}

static inline int is_candidate(const void *p) {
    return (uint64_t)p - gate.pm_base < gate.pm_span;
}

static inline void store8(struct thread *t, uint32_t n, volatile uint64_t *p, uint64_t v) {
    *p = v;
    if (t && is_candidate((void *)p)) {
        __crashpoint_store(t, SITE(n), (void *)p, v, 8 | PLAIN << 8);
    }
}

static inline void flush(struct thread *t, uint32_t n, const void *p) {
    if (t && is_candidate(p)) {
        __crashpoint_flush(t, SITE(n), p, 2);
    }
    __asm__ volatile("clflush %0" ::"m"(*(const char *)p));
}

static inline void fence(struct thread *t, uint32_t n) {
    __asm__ volatile("sfence" ::: "memory");
    if (t) {
        __crashpoint_fence(t, SITE(n), 0);
    }
}

#define POOL_BYTES (1u << 20)

static inline void *pool_at(const char *path, size_t size, void *address, int flags) {
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    if (fd < 0 || ftruncate(fd, size)) {
        perror(path);
        exit(1);
    }
    void *p = mmap(address, size, PROT_READ | PROT_WRITE, MAP_SHARED | flags, fd, 0);
    if (p == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    close(fd);
    return p;
}

static inline void *pool(const char *path) {
    return pool_at(path, POOL_BYTES, NULL, 0);
}
#endif
