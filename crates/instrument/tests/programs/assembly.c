// Flushes, fences, locks and stores in inline assembly, in the encodings of real programs.
#include <stdint.h>
#include <stdio.h>

void *stub_pm(void);

static void flushes(char *p) {
    __asm__ volatile("clflush %0" : "+m"(*(volatile char *)p));
    __asm__ volatile("clflush (%0)" : : "r"(p) : "memory");
    __asm__ volatile(".byte 0x66; clflush %0" : "+m"(*(volatile char *)(p + 64)));
    __asm__ volatile("clflush %0" : : "m"(*(p + 128)));
    __asm__ volatile("clflush 8(%0)" : : "r"(p));
    __asm__ volatile(".byte 0x66, 0x0f, 0xae, 0x38" : : "a"(p + 192) : "memory");
}

// Not every machine has it: the instruction is skipped, and so must not be reported as certain.
static void maybe(char *p, int yes) {
    __asm__ volatile("testl %1, %1\n\tjz 1f\n\tmovb $1, %0\n1:" : "=m"(*p) : "r"(yes) : "cc");
}

static void fences(void) {
    __asm__ volatile("sfence" ::: "memory");
    __asm__ volatile("mfence" ::: "memory");
    __asm__ volatile("lfence" ::: "memory");
    __asm__ volatile("" ::: "memory");
    __asm__ volatile("rep; nop" ::: "memory");
    __asm__ volatile("lock; addl $0,0(%%rsp)" ::: "memory", "cc");
}

static uint64_t locks(char *p) {
    uint64_t old = 7;
    __asm__ volatile("clflush %0" : "+m"(*p));
    __asm__ volatile("xchgq %0, %1" : "+r"(old) : "m"(*(uint64_t *)p) : "memory");
    uint8_t byte = 3;
    __asm__ volatile("xchgb %b0, %1" : "+q"(byte), "+m"(*(uint8_t *)(p + 8)));
    __asm__ volatile("lock; incl %0" : "+m"(*(uint32_t *)(p + 12)));
    uint32_t add = 5;
    __asm__ volatile("lock xaddl %0, (%1)" : "+r"(add) : "r"(p + 12) : "memory");
    uint64_t expected = 7;
    uint8_t done;
    __asm__ volatile("lock; cmpxchgq %3, %1; sete %0"
                     : "=q"(done), "+m"(*(uint64_t *)p), "+a"(expected)
                     : "r"(9ul)
                     : "memory", "cc");
    return old + byte + add + done;
}

static void stores(char *p) {
    __asm__ volatile("movq %1, %0" : "=m"(*(uint64_t *)p) : "r"(0x1234ul));
    __asm__ volatile("movnti %1, %0" : "=m"(*(uint32_t *)(p + 8)) : "r"(0x55));
    __asm__ volatile("movb $3, 16(%0)" : : "r"(p) : "memory");
    void *to = p + 32;
    unsigned long count = 5;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(0x77) : "memory");
    __asm__ volatile("addq $2, %0" : "+m"(*(uint64_t *)p) : : "cc");
}

static uint64_t harmless(char *p) {
    uint64_t a = 0, c = 0, d = 0;
    __asm__ volatile("rdtsc" : "=a"(a), "=d"(d));
    __asm__ volatile("cpuid" : "=a"(a), "=c"(c), "=d"(d) : "a"(0) : "rbx");
    __asm__ volatile("prefetcht0 (%0)" : : "r"(p));
    __asm__ volatile("movq %1, %0" : "=r"(a) : "m"(*(uint64_t *)p));
    __asm__("addq %1, %0" : "+r"(a) : "r"(1ul));
    __asm__ volatile("rolq $3, %%rdi ; rolq $13, %%rdi\n\trolq $61, %%rdi ; rolq $51, %%rdi\n\t"
                     "xchgq %%rbx,%%rbx"
                     : "=d"(d) : "a"(p), "0"(0) : "cc", "memory", "rdi");
    return a;
}

int main(void) {
    char *p = stub_pm();
    flushes(p);
    fences();
    uint64_t sum = locks(p + 0x100);
    stores(p + 0x200);
    maybe(p + 0x300, 1);
    sum += harmless(p + 0x200);
    char local[64] = {0};
    stores(local);
    sum += locks(local) + local[16];
    printf("%lu\n", sum);
    return 0;
}
