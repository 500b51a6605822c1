// Recovery as a checker runs it: reads a pool, in the way that the first argument names.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { POOL_BYTES = 1 << 16 };

uint64_t elsewhere(const uint64_t *p);

int main(int argc, char **argv) {
    int fd = open("pool", O_RDWR);
    char *p = mmap(NULL, POOL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (argc < 2 || p == MAP_FAILED) {
        return 1;
    }
    uint64_t *words = (uint64_t *)p, sum = words[3];
    uint32_t narrow = *(volatile uint16_t *)(p + 70);
    words[100] = sum + narrow;
    char local[24];
    memcpy(local, p + 512, sizeof local);
    sum += (uint64_t)local[0] + strlen(p + 1024) + (uint64_t)memcmp(p + 2048, local, 9);
    sum += __atomic_fetch_add(&words[400], 1, __ATOMIC_SEQ_CST);
    sum += elsewhere(words + 500);
    if (!strcmp(argv[1], "escape")) {
        // By a format that only this call knows.
        char format[] = "%s\n";
        printf(format, p);
    }
    if (!strcmp(argv[1], "crash-outside")) {
        // Dies in code without hooks.
        p[8] = 'x';
        printf("%s\n", *(char **)(p + 8));
    }
    return sum == 77 ? 2 : 0;
}
