// Stores of every kind, and the functions of the library that write.
#define _GNU_SOURCE
#include <immintrin.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

void *stub_pm(void);

typedef int v8 __attribute__((vector_size(32)));
struct pair { uint64_t a, b; };
struct bits { unsigned low : 3, high : 7; };

__attribute__((target("avx"))) static void wide(char *p) {
    _mm256_storeu_ps((float *)p, _mm256_set1_ps(1.5f));
    _mm256_stream_si256((__m256i *)(p + 64), _mm256_set1_epi8(7));
    _mm256_maskstore_ps((float *)(p + 128), _mm256_set_epi32(0, 0, 0, 0, -1, 0, 0, -1),
                        _mm256_set1_ps(2.5f));
}

static void vectors(char *p) {
    _mm_storeu_si128((__m128i *)p, _mm_set1_epi32(0x01020304));
    _mm_stream_si128((__m128i *)(p + 32), _mm_set1_epi32(5));
    _mm_stream_si64((long long *)(p + 48), 0x1122334455667788);
    _mm_stream_si32((int *)(p + 56), 0x7788);
    __m128i mask = _mm_setr_epi8(-1, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1);
    _mm_maskmoveu_si128(_mm_set1_epi8(9), mask, p + 64);
    *(v8 *)(p + 96) = (v8){1, 2, 3, 4, 5, 6, 7, 8};
    _mm_sfence();
}

static void scalars(char *p) {
    *(_Bool *)p = 1;
    *(float *)(p + 4) = 1.25f;
    *(long double *)(p + 16) = 2.5L;
    *(__int128 *)(p + 32) = ((__int128)1 << 100) + 3;
    *(_Complex double *)(p + 48) = 1.0 + 2.0 * 1.0i;
    *(struct pair *)(p + 64) = (struct pair){1, 2};
    struct bits *b = (struct bits *)(p + 80);
    b->low = 5;
    b->high = 99;
    *(volatile int *)(p + 84) = 6;
    *(char **)(p + 88) = p;
    _BitInt(24) *odd = (void *)(p + 96);
    *odd = 0x123456;
}

static void atomics(char *p) {
    _Atomic uint64_t *a = (void *)p;
    _Atomic uint32_t *b = (void *)(p + 8);
    _Atomic uint8_t *c = (void *)(p + 12);
    _Atomic int16_t *d = (void *)(p + 14);
    atomic_store_explicit(a, 1, memory_order_relaxed);
    atomic_store_explicit(a, 2, memory_order_release);
    _mm_clflush(p);
    atomic_store(a, 3);
    atomic_fetch_add(a, 10);
    _mm_clflush(p);
    atomic_fetch_sub(b, 1);
    atomic_fetch_or(c, 0x81);
    atomic_fetch_and(c, 0xf0);
    atomic_fetch_xor(b, 0xff);
    atomic_exchange(d, -2);
    __atomic_fetch_nand((uint64_t *)p, 6, __ATOMIC_SEQ_CST);
    __atomic_fetch_max((int64_t *)p, 100, __ATOMIC_SEQ_CST);
    __atomic_fetch_min((uint64_t *)p, 50, __ATOMIC_RELAXED);
    uint64_t expected = 50;
    atomic_compare_exchange_strong(a, &expected, 60);
    atomic_compare_exchange_strong(a, &expected, 70);
    atomic_thread_fence(memory_order_seq_cst);
    atomic_thread_fence(memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
    __sync_synchronize();
    _Atomic double *f = (void *)(p + 16);
    *f = 1.0;
    *f += 0.5;
}

static void library(char *p, char *source, int n) {
    memcpy(p, source, n);
    memmove(p + 1, p, n);
    memset(p + 32, n, n);
    mempcpy(p + 40, source, n);
    strcpy(p + 64, source);
    strcat(p + 64, "tail");
    strncat(p + 64, "limited", 3);
    strncpy(p + 96, "ab", 6);
    stpcpy(p + 104, source + 2);
    snprintf(p + 112, 6, "%d", 123456789);
    snprintf(p + 120, 20, "%s", source);
    sprintf(p + 144, "<%d>", n);
    bzero(p + 160, 3);
    wmemset((wchar_t *)(p + 164), L'x', 2);
    bcopy(source, p + 176, 4);
    int ends[2];
    if (pipe(ends) || write(ends[1], "through a pipe", 14) != 14)
        return;
    ssize_t got = read(ends[0], p + 192, 64);
    p[190] = (char)got;
    close(ends[0]);
    close(ends[1]);
    memcpy(p, source, 0);
}

int main(void) {
    char *p = stub_pm();
    char source[16] = "source";
    scalars(p + 0x100);
    vectors(p + 0x200);
    if (__builtin_cpu_supports("avx"))
        wide(p + 0x300);
    atomics(p + 0x400);
    library(p + 0x500, source, (int)strlen(source));
    _mm_clflush(p);
    _mm_mfence();
    char *middle = p + 0x600;
    *(long *)(middle - 8) = 4;
    uint64_t check = 0;
    for (int i = 0; i < 0x700; i++)
        check = check * 31 + (unsigned char)p[i];
    printf("%lx\n", check);
    return 0;
}
