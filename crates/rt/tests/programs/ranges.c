// One range that is longer than any record.
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
    leave(t);
    return 0;
}
