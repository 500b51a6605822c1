// Every way to map and unmap persistent memory, chosen by the second argument. Prints addresses.
#include "hooks.h"

#define PAGE 4096ul
static struct thread *t;

static int open_pool(const char *path, size_t size) {
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    if (fd < 0 || ftruncate(fd, size)) {
        perror(path);
        exit(1);
    }
    return fd;
}

static void *map(void *address, size_t size, int flags, int fd, off_t offset) {
    void *p = mmap(address, size, PROT_READ | PROT_WRITE, flags, fd, offset);
    if (p == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    printf("%lu\n", (unsigned long)p);
    return p;
}

static void *aliased;

static void test(const char *how, const char *path) {
    if (!strcmp(how, "hint")) {
        int fd = open_pool(path, 8 * PAGE);
        void *taken = map((void *)0x200000000000, PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        map(taken, 8 * PAGE, MAP_SHARED, fd, 0);
        map((void *)0x210000000000, 8 * PAGE, MAP_SHARED, fd, 0);
        map((void *)0x220000000000, 8 * PAGE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
        if (mmap(taken, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0) != MAP_FAILED ||
            errno != EEXIST) {
            exit(2);
        }
    } else if (!strcmp(how, "fixed")) {
        int fd = open_pool(path, 8 * PAGE);
        uint64_t *p = map(NULL, 8 * PAGE, MAP_SHARED, fd, 0);
        store8(t, 10, p, 1);
        // Something else in the middle, then the file again at another offset.
        map((char *)p + 2 * PAGE, 2 * PAGE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        store8(t, 11, p + 2 * 512, 2);
        map((char *)p + 3 * PAGE, PAGE, MAP_SHARED | MAP_FIXED, fd, 7 * PAGE);
        store8(t, 12, p + 3 * 512, 3);
        store8(t, 13, p + 7 * 512, 4);
    } else if (!strcmp(how, "partial")) {
        int fd = open_pool(path, 8 * PAGE);
        char *p = map(NULL, 8 * PAGE, MAP_SHARED, fd, 0);
        if (munmap(p + 3 * PAGE, 2 * PAGE - 1) || munmap(p, 8 * PAGE)) {
            exit(1);
        }
        // The place is free again.
        map(NULL, 8 * PAGE, MAP_SHARED, fd, 0);
    } else if (!strcmp(how, "alias")) {
        int fd = open_pool(path, 8 * PAGE);
        uint64_t *a = map(NULL, 8 * PAGE, MAP_SHARED, fd, 0);
        uint64_t *b = map(NULL, 4 * PAGE, MAP_SHARED, fd, 4 * PAGE);
        store8(t, 10, a + 4 * 512, 5);
        flush(t, 11, b);
        store8(t, 12, b + 8, 6);
        flush(t, 13, a + 4 * 512 + 8);
        fence(t, 14);
        aliased = b;
    } else if (!strcmp(how, "remap")) {
        int fd = open_pool(path, 64 * PAGE);
        uint64_t *p = map(NULL, 4 * PAGE, MAP_SHARED, fd, PAGE);
        store8(t, 10, p, 1);
        uint64_t *q = mremap(p, 4 * PAGE, 8 * PAGE, MREMAP_MAYMOVE);
        printf("%lu\n", (unsigned long)q);
        store8(t, 11, q + 5 * 512, 2);
        uint64_t *r = mremap(q, 8 * PAGE, 2 * PAGE, 0);
        printf("%lu\n", (unsigned long)r);
        // Something stands in the way now.
        map((char *)r + 2 * PAGE, PAGE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        uint64_t *s = mremap(r, 2 * PAGE, 6 * PAGE, MREMAP_MAYMOVE);
        printf("%lu\n", (unsigned long)s);
        store8(t, 12, s + 5 * 512, 3);
        uint64_t *u = mremap(s, 6 * PAGE, 6 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
                             (void *)0x300000000000);
        printf("%lu\n", (unsigned long)u);
        store8(t, 13, u, 4);
        uint64_t *v = mremap(u, 0, 2 * PAGE, MREMAP_MAYMOVE);
        printf("%lu\n", (unsigned long)v);
        store8(t, 14, v, 5);
        flush(t, 15, u);
    } else if (!strcmp(how, "msync")) {
        int fd = open_pool(path, 8 * PAGE);
        uint64_t *p = map(NULL, 8 * PAGE, MAP_SHARED, fd, 0);
        store8(t, 10, p + 600, 1);
        if (msync((char *)p + PAGE, 100, MS_SYNC) || msync(p, PAGE, MS_ASYNC)) {
            exit(1);
        }
        if (msync((char *)p + 1, 100, MS_SYNC) == 0 || errno != EINVAL) {
            exit(2);
        }
    } else if (!strcmp(how, "fsync")) {
        int fd = open_pool(path, 8 * PAGE), other = open_pool("other", PAGE);
        uint64_t *p = map(NULL, 2 * PAGE, MAP_SHARED, fd, 0);
        map(NULL, PAGE, MAP_SHARED, fd, 4 * PAGE);
        store8(t, 10, p, 1);
        p[1] = 7;
        if (fsync(fd) || fdatasync(other) || fsync(-1) == 0 || errno != EBADF) {
            exit(1);
        }
    } else if (!strcmp(how, "several")) {
        for (int i = 0; i < 3; i++) {
            char name[64];
            snprintf(name, sizeof name, "%s%d", path, i);
            int fd = open_pool(name, (i + 1) * PAGE);
            uint64_t *p = map(NULL, (i + 1) * PAGE, MAP_SHARED, fd, 0);
            store8(t, 10 + i, p, i);
            close(fd);
        }
        int other = open_pool("other", PAGE);
        uint64_t *p = map(NULL, PAGE, MAP_SHARED, other, 0);
        store8(t, 20, p, 1);
        // A private copy does not persist.
        int private = open_pool(path, PAGE);
        p = map(NULL, PAGE, MAP_PRIVATE, private, 0);
        store8(t, 21, p, 1);
    } else if (!strcmp(how, "again")) {
        // A file that is unlinked and made anew is another file, even with the same inode.
        for (int i = 0; i < 3; i++) {
            int fd = open_pool(path, PAGE);
            uint64_t *p = map(NULL, PAGE, MAP_SHARED, fd, 0);
            store8(t, 10, p, i + 1);
            munmap(p, PAGE);
            close(fd);
            unlink(path);
        }
    } else if (!strcmp(how, "position")) {
        int fd = open_pool(path, PAGE);
        if (pwrite(fd, "x", 1, 0) != 1 || lseek(fd, 7, SEEK_SET) != 7) {
            exit(1);
        }
        map(NULL, PAGE, MAP_SHARED, fd, 0);
        if (lseek(fd, 0, SEEK_CUR) != 7) {
            exit(2);
        }
    } else {
        exit(9);
    }
}

int main(int argc, char **argv) {
    t = enter(1);
    calling(t, 2);
    test(argv[2], argv[1]);
    leave(t);
    return 0;
}
