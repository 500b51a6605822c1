// What compiles only because the optimiser removes or folds something; hooked bodies are not
// optimised.
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void *stub_pm(void);

#ifdef __OPTIMIZE__
extern void bad_size(void) __attribute__((error("bad size")));
#define CONSTANT "i"
#else
static void bad_size(void) {}
#define CONSTANT "r"
#endif

static inline int put(void *p, int size) {
    switch (size) {
    case 1: *(char *)p = 1; break;
    case 4: *(int *)p = 1; break;
    default: bad_size();
    }
    return size;
}

static inline void immediate(int *p, const int n) {
    __asm__ volatile("addl %1, %0" : "+m"(*p) : CONSTANT(n));
}

static inline int pick(int n) {
    int r;
    if (__builtin_constant_p(n))
        __asm__("movl %1, %0" : "=r"(r) : "i"(n));
    else
        r = n;
    return r;
}

static int loop(int n, int sum) { return n == 0 ? sum : loop(n - 1, sum + n); }

int main(int argc, char **argv) {
    int *pm = stub_pm();
    char buffer[64] = "";
    ssize_t n = read(0, buffer, sizeof buffer - 1);
    buffer[n > 0 ? n : 0] = 0;
    if (fgets(buffer, argc > 3 ? 10 : sizeof buffer, stdin))
        puts(buffer);
    if (fread(buffer, 1, argc > 2 ? 8 : 16, stdin))
        puts(buffer);
    snprintf(buffer, sizeof buffer, "%d", argc);
    put(pm, 4);
    put(pm + 4, 1);
    immediate(pm, 5);
    memset(pm + 8, argc, argc > 5 ? 100 : 20);
    printf("%d %d %d %s %d\n", pm[0], pick(3), pick(argc), buffer, loop(1000, 0));
    return (int)(argv[0] == 0);
}
