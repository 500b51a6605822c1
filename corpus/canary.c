// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The canary: the simplest missing flush. If this is not reported, nothing else that is or is not
// reported means anything.

#include <emmintrin.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int fd = argc == 2 ? open(argv[1], O_RDWR | O_CREAT, 0644) : -1;
    if (fd < 0 || ftruncate(fd, 4096) != 0) {
        return 1;
    }
    volatile long *word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (word == MAP_FAILED) {
        return 1;
    }
    *word = 1;
    _mm_clflush((const void *)word);
    _mm_sfence();
    *word = 2; //~ BUG missing-flush
    return 0;
}
