// An instrumented library: stores to persistent memory that somebody hands to it.
#include "hooks.h"

void library_store(uint64_t *p, uint64_t value) {
    struct thread *t = enter(100);
    store8(t, 101, p, value);
    flush(t, 102, p);
    fence(t, 103);
    leave(t);
}

uint64_t *library_pool(const char *path) {
    return pool(path);
}
