// Writes to persistent memory that no hook sees, noticed at a flush, an msync, an unmap, a fork,
// an exit, or when the file is mapped again.
#include "hooks.h"

int main(int argc, char **argv) {
    const char *how = argv[2];
    uint64_t *p = pool(argv[1]);
    struct thread *t = enter(1);
    store8(t, 2, p, 1);
    calling(t, 3);
    memcpy((char *)p + 100, "abcdef", 6);
    memset((char *)p + 4096, 7, 1000);
    if (!strcmp(how, "flush")) {
        flush(t, 4, p + 12);
        calling(t, 5);
        memcpy((char *)p + 100, "abcdeg", 6);
        flush(t, 4, p + 12);
        flush(t, 4, p + 12);
    } else if (!strcmp(how, "msync")) {
        msync(p, 4096, MS_SYNC);
        store8(t, 6, p, 2);
    } else if (!strcmp(how, "unmap")) {
        munmap((char *)p + 4096, 4096);
        store8(t, 6, p, 2);
    } else if (!strcmp(how, "fork")) {
        pid_t child = fork();
        if (child == 0) {
            _exit(0);
        }
        waitpid(child, NULL, 0);
        store8(t, 6, p, 2);
    } else if (!strcmp(how, "again")) {
        munmap(p, POOL_BYTES);
        int fd = open(argv[1], O_RDWR);
        if (pwrite(fd, "later", 5, 8192) != 5 || pwrite(fd, "\0\0", 2, 100) != 2) {
            return 1;
        }
        close(fd);
        p = pool(argv[1]);
        store8(t, 6, p, 2);
    } else if (!strcmp(how, "protected")) {
        // What cannot be read is passed over.
        mprotect(p, 4096, PROT_NONE);
        truncate(argv[1], 4096);
    } else if (!strcmp(how, "threads")) {
        // With a second thread about, the rule for threads applies.
        pthread_t thread;
        pthread_create(&thread, NULL, (void *(*)(void *))pause, NULL);
        flush(t, 4, p + 12);
    }
    leave(t);
    return 0;
}
