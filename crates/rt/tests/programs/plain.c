// A program that is not instrumented, with an instrumented library: linked, or loaded at run time
// when the pool is already mapped.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *mapped(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    if (fd < 0 || ftruncate(fd, 1 << 20)) {
        exit(1);
    }
    void *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return p;
}

#ifdef LINKED
void library_store(uint64_t *p, uint64_t value);

int main(int argc, char **argv) {
    uint64_t *p = mapped(argv[1]);
    library_store(p, 1);
    p[100] = 2;
    return 0;
}
#else
static void *in_thread(void *p) {
    void *library = dlopen("./liblibrary.so", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    typedef void store(uint64_t *, uint64_t);
    ((store *)dlsym(library, "library_store"))(p, 1);
    dlclose(library);
    return NULL;
}

int main(int argc, char **argv) {
    uint64_t *p = mapped(argv[1]);
    memcpy(p + 200, "before", 6);
    pthread_t thread;
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&thread, NULL, in_thread, p) || pthread_join(thread, NULL)) {
            return 1;
        }
    }
    p[100] = 2;
    return 0;
}
#endif
