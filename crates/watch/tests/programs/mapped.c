// Stores through shared mappings, with and without msync; and one that becomes writable later.
#include "common.h"

static char *map(const char *name, int protection, int *file) {
    *file = check(open(name, O_RDWR | O_CREAT, 0644));
    check(ftruncate(*file, 3 * 4096));
    char *memory = mmap(NULL, 3 * 4096, protection, MAP_SHARED, *file, 0);
    if (memory == MAP_FAILED) _exit(96);
    return memory;
}

int main(int count, char **arguments) {
    check(chdir(arguments[1]));
    int file, other, late;
    char *memory = map("synced", PROT_READ | PROT_WRITE, &file);
    strcpy(memory + 100, "first");
    strcpy(memory + 4096, "second");
    check(msync(memory, 3 * 4096, MS_SYNC));
    check(close(file));
    strcpy(memory + 8192, "after close");
    put(1, "stored\n");
    check(munmap(memory, 3 * 4096));

    char *second = map("lost", PROT_READ | PROT_WRITE, &other);
    strcpy(second, "never synced");
    check(pwrite(other, "W", 1, 5000));
    check(fsync(other));

    char *third = map("late", PROT_READ, &late);
    check(mprotect(third, 4096, PROT_READ | PROT_WRITE));
    strcpy(third, "late");
    pid_t child = check(fork());
    if (child == 0) {
        strcpy(second + 4096 * 2, "by a child");
        _exit(0);
    }
    check(waitpid(child, NULL, 0));
    strcpy(second + 10, "at the very end");
    return count - 2;
}
