// Symbols of every kind: weak, alias, ifunc, hidden, used, constructors, sections, tables.
#include <stdint.h>
#include <stdio.h>

void *stub_pm(void);
static uint64_t *pm;

__attribute__((weak)) int weak_function(int x) {
    pm[0] = x;
    return x + 1;
}

int target(int x) {
    pm[1] = x;
    return x * 2;
}
int alias_of_target(int) __attribute__((alias("target")));
static int weak_alias(int) __attribute__((weakref("alias_of_target")));

static int chosen_slow(int x) { return x - 1; }
static int chosen_fast(int x) {
    pm[2] = x;
    return x - 1;
}
static int helper_of_resolver(void) { return 7; }
static int (*resolve(void))(int) {
    return helper_of_resolver() == 7 ? chosen_fast : chosen_slow;
}
int chosen(int) __attribute__((ifunc("resolve")));

__attribute__((visibility("hidden"))) int hidden(int x) { return chosen(x) + 1; }

__attribute__((used)) static int only_assembly_calls(int x) { return x + 100; }
__asm__(".text\n.type trampoline,@function\ntrampoline:\n\tjmp only_assembly_calls\n");
int trampoline(int);

static int constructed;
__attribute__((constructor(150))) static void early(void) { constructed = 5; }
__attribute__((constructor)) static void late(void) {
    pm = stub_pm();
    pm[3] = constructed;
    constructed *= 2;
}
__attribute__((destructor)) static void last(void) {
    pm[4] = 99;
    printf("destroyed %lu\n", pm[4]);
}

__attribute__((section("special"))) int in_section(int x) {
    pm[5] = x;
    return x;
}

static int first(int x) { return x; }
static int second(int x) { return x + 10; }
static int (*const operations[])(int) = {first, second, target};

static __thread int counter;
int count(void) { return ++counter; }

static inline __attribute__((always_inline)) int immediate(int x, const int n) {
#ifdef __OPTIMIZE__
    // Compiles only if the argument is a constant once this is inlined.
    __asm__("addl %1, %0" : "+r"(x) : "i"(n));
#else
    x += n;
#endif
    pm[6] = x;
    return x;
}

extern inline __attribute__((gnu_inline, always_inline)) int gnu_inlined(int x) {
    pm[7] = x;
    return x + 3;
}

inline int c99_inline(int x) {
    pm[8] = x;
    return x + 4;
}
extern int c99_inline(int x);

__attribute__((const)) int pure_sum(int a, int b) { return a + b; }
__attribute__((pure, noinline)) static uint64_t pure_read(int i) { return pm[i]; }
__attribute__((cold, noinline)) static int cold_path(int x) {
    pm[9] = x;
    return x;
}

int main(void) {
    int sum = weak_function(1) + target(2) + alias_of_target(3) + weak_alias(4) + chosen(5);
    sum += hidden(6) + trampoline(7) + in_section(8) + immediate(9, 1000) + gnu_inlined(10);
    sum += c99_inline(11) + pure_sum(12, 13) + (int)pure_read(0) + cold_path(14);
    for (int i = 0; i < 3; i++)
        sum += operations[i](i);
    count();
    printf("%d %d %d %d\n", sum, constructed, count(), target == alias_of_target);
    return 0;
}
