// Coroutines are not hooked, what they call is.
#include <coroutine>
#include <cstdint>
#include <cstdio>

extern "C" void *stub_pm(void);
static uint64_t *pm = static_cast<uint64_t *>(stub_pm());

__attribute__((noinline)) static void persist(uint64_t x) { pm[1] = x; }

struct Generator {
    struct promise_type {
        int current = 0;
        Generator get_return_object() {
            return {std::coroutine_handle<promise_type>::from_promise(*this)};
        }
        std::suspend_always initial_suspend() { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        std::suspend_always yield_value(int x) {
            current = x;
            return {};
        }
        void return_void() {}
        void unhandled_exception() {}
    };
    std::coroutine_handle<promise_type> handle;
    ~Generator() { handle.destroy(); }
    bool next() {
        handle.resume();
        return !handle.done();
    }
};

static Generator squares(int n) {
    for (int i = 0; i < n; i++) {
        persist(i);
        co_yield i * i;
    }
}

int main() {
    auto g = squares(4);
    int sum = 0;
    while (g.next())
        sum += g.handle.promise().current;
    std::printf("%d\n", sum);
}
