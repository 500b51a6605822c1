// Prints what the gate says before and after a pool is mapped.
#include "hooks.h"

int main(int argc, char **argv) {
    uint64_t before = gate.pm_span;
    char *p = pool(argv[1]);
    if (!is_candidate(p) || is_candidate(p - 1) || !is_candidate(p + POOL_BYTES - 1)) {
        return 1;
    }
    printf("%lu %lu %lu\n", before, gate.pm_span, gate.load_span);
    munmap(p, POOL_BYTES);
    return gate.pm_span != 0;
}
