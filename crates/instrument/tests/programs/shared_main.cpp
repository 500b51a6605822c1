#include "shared.h"
#include <cstdio>
#include <stdexcept>

int main() {
    Box<int> box(4);
    Box<long> large(5);
    int caught = 0;
    try {
        other(-1);
    } catch (const std::exception &) {
        caught = 1;
    }
    int a = shared_counter(1);
    int b = other(2);
    std::printf("%d %d %d %ld %d %d %d\n", box.twice(), a, b, large.twice(), Box<int>::made, caught,
                shared_counter(1));
}
