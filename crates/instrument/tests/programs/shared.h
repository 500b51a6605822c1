// An inline function that several objects define.
#include <cstdint>
extern "C" void *stub_pm(void);

template <class T> struct Box {
    static inline int made = 0;
    T value;
    explicit Box(T v) : value(v) {
        ++made;
        static_cast<uint64_t *>(stub_pm())[1] = static_cast<uint64_t>(v);
    }
    virtual ~Box() {}
    virtual T twice() const { return value * 2; }
};

inline int shared_counter(int by) {
    static int counter = 100;
    static_cast<uint64_t *>(stub_pm())[2] = static_cast<uint64_t>(counter);
    return counter += by;
}

int other(int x);
