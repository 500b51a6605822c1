// A program without hooks that maps a pool, shared or not, and reads it.
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

int main(int argc, char **argv) {
    int fd = open("pool", O_RDWR);
    int kind = argc > 1 && !strcmp(argv[1], "private") ? MAP_PRIVATE : MAP_SHARED;
    char *p = mmap(NULL, 4096, PROT_READ, kind, fd, 0);
    return p == MAP_FAILED ? 99 : p[0];
}
