// Another object of the same program.
#include <stdint.h>

uint64_t elsewhere(const uint64_t *p) {
    return p[1];
}
