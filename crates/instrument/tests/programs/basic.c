// Stores of every width, a flush, a fence, calls and branches.
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

void *stub_pm(void);

struct node {
    uint64_t key;
    uint32_t count;
    uint16_t flags;
    uint8_t tag, end;
    double weight;
    struct node *next;
};

static void persist(void *p) {
    _mm_clflush(p);
    _mm_sfence();
}

static void fill(struct node *n, int k) {
    n->key = k;
    n->count = k + 1;
    n->flags = k + 2;
    n->tag = k + 3;
    n->weight = k * 0.5;
    if (k & 1)
        n->next = n;
    persist(n);
}

int classify(int k) {
    switch (k % 5) {
    case 0: return 10;
    case 1: return 11;
    case 3: return 13;
    default: return -1;
    }
}

int main(void) {
    struct node *pool = stub_pm();
    struct node local = {0};
    fill(&local, 8);
    int sum = 0;
    for (int i = 0; i < 3; i++) {
        fill(&pool[i], i);
        sum += classify(i) + (int)pool[i].key;
    }
    memcpy(&pool[4], &local, sizeof local);
    memset(&pool[5], 0x5a, 24);
    printf("%d %d\n", sum, pool[4].count);
    return sum & 15;
}
