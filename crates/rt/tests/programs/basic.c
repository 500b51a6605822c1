// Every hook once, from two depths of the stack.
#include "hooks.h"

static __attribute__((noinline)) void inner(uint64_t *p) {
    struct thread *t = enter(10);
    store8(t, 11, p, 0x1122334455667788);
    flush(t, 12, p);
    fence(t, 13);
    leave(t);
}

int main(int argc, char **argv) {
    uint64_t *p = pool(argv[1]);
    struct thread *t = enter(1);
    store8(t, 2, p, 7);
    uint64_t volatile_memory;
    store8(t, 2, &volatile_memory, 7);
    for (int i = 0; i < 2; i++) {
        calling(t, 3);
        inner(p + 1);
    }
    calling(t, 4);
    inner(p + 2);
    if (t) {
        memset(p + 100, 0x5a, 100);
        __crashpoint_range(t, SITE(5), p + 100, 100, MEMORY);
        memcpy(p + 200, "some bytes that are not all one.", 32);
        __crashpoint_range(t, SITE(6), p + 200, 32, NON_TEMPORAL);
        memcpy(p + 300, "odd", 3);
        __crashpoint_range(t, SITE(6), p + 300, 3, MEMORY);
        printf("pending %u\n", t->pending);
        __crashpoint_load(t, SITE(7), p, 8);
        __crashpoint_opaque(t, SITE(8));
        uint64_t arguments[2] = {1, ~0ull};
        __crashpoint_call(t, SITE(9), arguments, 2);
        __crashpoint_return(t, SITE(9), 42);
        __crashpoint_sync(t, SITE(20), p, 0);
        *(uint8_t *)(p + 400) = 1;
        __crashpoint_store(t, SITE(21), p + 400, 1, 1 | ATOMIC << 8);
        __crashpoint_fence(t, SITE(22), 1);
        printf("pending %u\n", t->pending);
    }
    leave(t);
    printf("watched %d %d %d\n", watched[0], watched[1], watched[2]);
    return munmap(p, POOL_BYTES) ? 1 : 3;
}
