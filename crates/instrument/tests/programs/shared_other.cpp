#include "shared.h"
#include <stdexcept>

int other(int x) {
    Box<int> box(x);
    if (x < 0)
        throw std::runtime_error("negative");
    static_cast<uint64_t *>(stub_pm())[3] = static_cast<uint64_t>(x);
    return shared_counter(box.twice());
}
