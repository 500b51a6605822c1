// C++: exceptions, virtual functions, templates, lambdas, function-local statics, constructors.
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

extern "C" void *stub_pm(void);
static uint64_t *pm = static_cast<uint64_t *>(stub_pm());

struct Guard {
    uint64_t *slot;
    explicit Guard(uint64_t *s) : slot(s) { *slot += 1; }
    ~Guard() { *slot += 100; }
};

struct Shape {
    virtual ~Shape() = default;
    virtual uint64_t area() const = 0;
};
struct Square : Shape {
    uint64_t side;
    explicit Square(uint64_t s) : side(s) {}
    uint64_t area() const override { return side * side; }
};
struct Rectangle final : virtual Shape {
    uint64_t a, b;
    Rectangle(uint64_t x, uint64_t y) : a(x), b(y) {}
    uint64_t area() const override { return a * b; }
};

template <class T> struct Cell {
    static T last;
    T value;
    void set(T v) { pm[8] = static_cast<uint64_t>(v); value = last = v; }
};
template <class T> T Cell<T>::last = T(7);

static int thrower(int depth) {
    Guard guard(pm + 1);
    pm[2] = depth;
    if (depth == 0)
        throw std::runtime_error("bottom");
    return thrower(depth - 1) + 1;
}

static int catcher(int depth) {
    try {
        Guard guard(pm + 3);
        return thrower(depth);
    } catch (const std::runtime_error &error) {
        pm[4] = depth;
        return static_cast<int>(std::string(error.what()).size());
    } catch (...) {
        return -1;
    }
}

static int rethrower(int depth) {
    try {
        return thrower(depth);
    } catch (...) {
        pm[5]++;
        throw;
    }
}

static int &counter() {
    static int value = [] {
        pm[6] = 42;
        return 5;
    }();
    return ++value;
}

static int through_library(int limit) {
    // The exception passes frames of the standard library, which is not instrumented.
    std::function<int(int)> f = [&](int x) -> int {
        pm[7] = x;
        if (x > limit)
            throw x;
        return x;
    };
    int sum = 0;
    for (int i = 0; i < 5; i++) {
        try {
            sum += f(i);
        } catch (int x) {
            sum += 10 * x;
        }
    }
    return sum;
}

inline int shared_inline(int x) {
    static int calls;
    pm[9] = ++calls;
    return x + calls;
}

int main() {
    std::vector<std::unique_ptr<Shape>> shapes;
    shapes.push_back(std::make_unique<Square>(3));
    shapes.push_back(std::make_unique<Rectangle>(4, 5));
    uint64_t area = 0;
    for (auto &shape : shapes)
        area += shape->area();
    Cell<int> cell;
    cell.set(3);
    Cell<double> other;
    other.set(2.5);
    int caught = catcher(3);
    try {
        rethrower(2);
    } catch (std::exception &error) {
        caught += 1000;
    }
    std::map<std::string, int> names;
    names["one"] = 1;
    names["two"] = 2;
    for (auto &[name, value] : names)
        pm[10] += value;
    std::thread worker([] { pm[11] = 11; });
    worker.join();
    std::printf("%lu %d %d %d %d %d\n", area, caught, counter() + counter(), through_library(2),
                Cell<int>::last, shared_inline(1) + shared_inline(2));
    return 0;
}
