// One range that is longer than any record, and vectors of every width.
#include "hooks.h"

int main(int argc, char **argv) {
    uint8_t *p = pool(argv[1]);
    struct thread *t = enter(1);
    for (unsigned i = 0; i < 500000; i++) {
        p[3 + i] = i % 251;
    }
    __crashpoint_range(t, SITE(2), p + 3, 500000, MEMORY);
    // Nothing, and something that is not persistent.
    __crashpoint_range(t, SITE(4), p, 0, MEMORY);
    __crashpoint_range(t, SITE(4), argv, 64, MEMORY);
    uint8_t value[128];
    for (unsigned i = 0; i < 128; i++) {
        value[i] = i;
    }
    for (unsigned size = 16; size <= 64; size *= 2) {
        // What counts is the value, not what memory holds when the hook runs.
        __crashpoint_vector(t, SITE(size), p + 600000 + size, value, size | NON_TEMPORAL << 8);
        memcpy(p + 600000 + size, value, size);
    }
    printf("%u\n", t->pending);
    // The last vector reaches out of the pool.
    memcpy(p + POOL_BYTES - 16, value, 16);
    munmap(p + POOL_BYTES - 4096, 4096);
    uint8_t *end = p + POOL_BYTES - 4096;
    memcpy(end - 8, value, 8);
    __crashpoint_vector(t, SITE(7), end - 8, value, 16 | PLAIN << 8);
    __crashpoint_vector(t, SITE(8), argv, value, 16 | PLAIN << 8);
    leave(t);
    return 0;
}
