// A small persistent store with a mistake for each rule of `crashpoint lint` that needs no
// transactions. Compiled with -DREPAIRED it has none of them.

#include <emmintrin.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SLOTS = 60 };

struct slot {
    _Alignas(64) uint64_t key;
    uint64_t value;
    uint64_t used;
};

struct store {
    _Alignas(64) uint64_t lookups;
    struct slot slot[SLOTS];
};

#ifdef REPAIRED
static uint64_t lookups;
#endif

// clflushopt; processors that do not know it execute clflush.
static void flush(const void *p) {
    __asm__ volatile(".byte 0x66; clflush %0" : "+m"(*(volatile char *)(uintptr_t)p));
}

static void fence(void) {
    _mm_sfence();
}

static void persist(const void *p) {
    flush(p);
    fence();
}

static void put(struct store *s, unsigned n, uint64_t key, uint64_t value) {
    struct slot *slot = &s->slot[n];
    slot->key = key;
    slot->value = value;
#ifdef REPAIRED
    persist(slot);
#else
    flush(&slot->key);
    flush(&slot->value); // the same cache line
    fence();
#endif
    slot->used = 1;
    persist(&slot->used);
}

static void drop(struct store *s, unsigned n) {
    s->slot[n].used = 0;
#ifdef REPAIRED // else it is never flushed
    persist(&s->slot[n].used);
#endif
}

static void update(struct store *s, unsigned n, uint64_t value) {
    s->slot[n].value = value;
#ifdef REPAIRED
    persist(&s->slot[n].value);
#else
    flush(&s->slot[n].value); // no fence waits for it
#endif
}

static uint64_t get(struct store *s, unsigned n) {
#ifdef REPAIRED
    lookups++;
#else
    s->lookups++; // needs no persistent memory
    fence();      // there is nothing to wait for
#endif
    return s->slot[n].used ? s->slot[n].value : 0;
}

int main(int argc, char **argv) {
    int fd = argc == 2 ? open(argv[1], O_RDWR | O_CREAT, 0644) : -1;
    if (fd < 0 || ftruncate(fd, sizeof(struct store)) != 0) {
        return 1;
    }
    struct store *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (s == MAP_FAILED) {
        return 1;
    }
    uint64_t sum = 0;
    for (unsigned n = 0; n < SLOTS; n++) {
        put(s, n, n + 1, n * n);
        sum += get(s, n);
    }
    printf("%lu\n", (unsigned long)sum);
    drop(s, 0);
    update(s, SLOTS - 1, sum);
    return 0;
}
