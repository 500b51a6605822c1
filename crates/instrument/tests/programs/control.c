// Control that is not a plain call and return: naked, setjmp, varargs, computed goto, asm goto,
// guaranteed tail calls, deep recursion, switches, noreturn.
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

void *stub_pm(void);
static uint64_t *pm;

__attribute__((naked)) long naked_add(long a, long b) {
    __asm__("leaq (%rdi,%rsi), %rax\n\tretq");
}

static jmp_buf env;

__attribute__((noinline)) static void deeper(int n) {
    pm[1] = n;
    if (n == 0)
        longjmp(env, 3);
    deeper(n - 1);
}

__attribute__((noinline)) int with_setjmp(int rounds) {
    volatile int count = 0;
    int result = setjmp(env);
    pm[2] = result;
    if (count++ < rounds)
        deeper(3);
    return count * 10 + result;
}

static long sum(int n, ...) {
    va_list list;
    va_start(list, n);
    long total = 0;
    for (int i = 0; i < n; i++)
        total += va_arg(list, long);
    va_end(list);
    pm[3] = total;
    return total;
}

long sum_doubles(const char *kinds, ...) {
    va_list list, copy;
    va_start(list, kinds);
    va_copy(copy, list);
    double total = 0;
    for (const char *k = kinds; *k; k++)
        total += *k == 'd' ? va_arg(list, double) : va_arg(list, int);
    total += *kinds == 'd' ? va_arg(copy, double) : 0;
    va_end(copy);
    va_end(list);
    pm[4] = (uint64_t)total;
    return (long)total;
}

// A table of labels outside of the body.
int interpret(const char *program) {
    static void *const labels[] = {&&increment, &&decrement, &&twice, &&stop};
    int value = 1;
#define NEXT goto *labels[*program++ - '0']
    NEXT;
increment:
    pm[5] = ++value;
    NEXT;
decrement:
    pm[5] = --value;
    NEXT;
twice:
    value *= 2;
    pm[5] = value;
    NEXT;
stop:
    return value;
}

// A table of labels made at run time.
int wander(int steps) {
    void *labels[3];
    labels[0] = &&left;
    labels[1] = &&right;
    labels[2] = &&out;
    int at = 0;
left:
    pm[6] = ++at;
    if (steps-- > 0)
        goto *labels[steps % 2];
    goto *labels[2];
right:
    pm[7] = at += 2;
    if (steps-- > 0)
        goto *labels[steps % 3];
out:
    return at;
}

int jump_in_assembly(int x) {
    __asm__ goto("testl %0, %0\n\tjz %l[zero]" : : "r"(x) : "cc" : zero);
    pm[8] = x;
    return 1;
zero:
    pm[8] = 77;
    return 0;
}

__attribute__((noinline)) static int odd(int n, int acc);
__attribute__((noinline)) static int even(int n, int acc) {
    pm[9] = n;
    if (n == 0)
        return acc;
    __attribute__((musttail)) return odd(n - 1, acc + 1);
}
static int odd(int n, int acc) {
    if (n == 0)
        return -acc;
    __attribute__((musttail)) return even(n - 1, acc + 2);
}

__attribute__((noreturn, noinline)) static void leave(int code) {
    pm[10] = code;
    exit(code);
}

static int deep(int n) {
    if (n == 0)
        return 0;
    int rest = deep(n - 1);
    return rest + 1;
}

enum big { A, B = 100, C = -5, D = 1000000 };
static int pick(enum big b) {
    switch (b) {
    case A: case B: return 1;
    case C: return 2;
    case D: return 3;
    }
    return 4;
}

struct large { long words[9]; };
__attribute__((noinline)) static long by_value(struct large l, struct large *same) {
    l.words[3]++;
    pm[11] = l.words[3];
    return l.words[0] + l.words[8] + (l.words[3] != same->words[3]);
}
struct large make_large(long seed) {
    struct large l;
    for (int i = 0; i < 9; i++)
        l.words[i] = seed * i;
    return l;
}
long by_value_outside(int x, struct large l, ...) { return l.words[8] + x; }

int main(void) {
    pm = stub_pm();
    printf("%ld\n", naked_add(40, 2));
    printf("%d\n", with_setjmp(2));
    printf("%ld %ld\n", sum(3, 1L, 2L, 3L), sum_doubles("did", 1.5, 2, 3.5));
    printf("%d\n", interpret("0021023"));
    printf("%d\n", wander(7));
    printf("%d %d\n", jump_in_assembly(5), jump_in_assembly(0));
    printf("%d\n", even(101, 0));
    printf("%d\n", deep(1000));
    printf("%d%d%d%d%d\n", pick(A), pick(B), pick(C), pick(D), pick(7));
    struct large l = make_large(3);
    printf("%ld %ld\n", by_value(l, &l), by_value_outside(1, l, 2, 3));
    long (*pointer)(int, ...) = sum;
    printf("%d %ld\n", pointer == sum, pointer(2, 5L, 6L));
    fflush(stdout);
    leave(9);
}
