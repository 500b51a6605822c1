// Writes flow records like instrumented code does: branches inline, room by need.
#include "hooks.h"

static inline void branch(struct thread *t, int taken) {
    if (t && gate.level >= 2) {
        if (t->flow_cursor > t->flow_limit) {
            __crashpoint_flow_full(t);
        }
        *t->flow_cursor++ = 0x10 + taken;
    }
}

static __attribute__((noinline)) void callee(uint64_t *p, uint64_t i) {
    struct thread *t = enter(10);
    branch(t, i & 1);
    if (i % 1000 == 0) {
        store8(t, 11, p, i);
    }
    leave(t);
}

int main(int argc, char **argv) {
    uint64_t *p = pool(argv[1]);
    uint64_t count = strtoull(argv[2], NULL, 10);
    struct thread *t = enter(1);
    for (uint64_t i = 0; i < count; i++) {
        calling(t, 2);
        callee(p, i);
    }
    if (t) {
        // Back from two functions that were never left.
        struct frame *frame = t->frame;
        enter(20);
        enter(21);
        __crashpoint_resync(t, frame, SITE(30));
        store8(t, 31, p, 1);
    }
    leave(t);
    return argc > 3 ? kill(getpid(), SIGKILL) : 0;
}
