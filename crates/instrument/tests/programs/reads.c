// Reads that are no loads: sources of copies, atomics, functions of the library; and addresses that
// go where nobody knows what they are good for.
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *stub_pm(void);

struct record {
    char text[24];
    uint64_t number;
};

__attribute__((noinline)) static uint64_t inside(const struct record *record) {
    return record->number;
}

static uint64_t copies(char *p) {
    struct record local;
    memcpy(&local, p, sizeof local);
    memmove(p + 64, p, 16);
    memcpy(p + 128, &local, 8);
    char text[32];
    strcpy(text, p);
    strncpy(text, p, 3);
    return local.number + (uint64_t)text[0];
}

static int strings(char *p, int n) {
    int sum = (int)strlen(p) + strcmp(p, "pool") + strncmp("po", p, 2) + memcmp(p, p + 64, n);
    return sum + atoi(p + 200) + memcmp(p, "x", 0);
}

static uint64_t atomics(char *p) {
    _Atomic uint64_t *word = (void *)(p + 256);
    uint64_t expected = 7;
    atomic_compare_exchange_strong(word, &expected, 8);
    return atomic_fetch_add(word, 1) + expected;
}

static int by_number(const void *left, const void *right) {
    return (int)*(const uint64_t *)left - (int)*(const uint64_t *)right;
}

int main(void) {
    char *p = stub_pm();
    strcpy(p, "pool");
    strcpy(p + 200, "17");
    uint64_t sum = copies(p) + (uint64_t)strings(p, 5) + atomics(p);
    uint64_t *words = (uint64_t *)(p + 320);
    words[0] = 3;
    words[1] = 2;
    qsort(words, 2, 8, by_number);
    char line[32], format[] = "%s";
    snprintf(line, sizeof line, "%s", p);
    snprintf(line, sizeof line, format, p);
    puts(p);
    sum += inside((struct record *)p);
    printf("%lu %s\n", sum, line);
    return 0;
}
