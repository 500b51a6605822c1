// Writes without a pause: of two files in turn, elsewhere, too much, from bad memory, from deep below.
#include "common.h"
#include <sys/resource.h>

static int file;

static __attribute__((noinline)) int deep(int levels) {
    volatile char room[512];
    room[0] = (char)levels;
    if (levels == 0) {
        for (int i = 0; i < 4; i++) put(file, "deep\n");
        return room[0];
    }
    return deep(levels - 1) + room[0];
}

static __attribute__((noinline)) void other_place(void) {
    put(file, "elsewhere\n");
}

int main(int count, char **arguments) {
    check(chdir(arguments[1]));
    printf("%s %s\n", getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "-",
           getenv("CRASHPOINT_SYSCALLBUF") ? "marked" : "-");
    fflush(stdout);
    file = check(open("a", O_RDWR | O_CREAT, 0644));
    int second = check(open("b", O_WRONLY | O_CREAT | O_APPEND, 0644));
    for (int i = 0; i < 20; i++) {
        char line[16];
        snprintf(line, sizeof line, "line %d\n", i);
        put(file, line);
        put(second, line);
        if (i % 5 == 4) other_place();
    }
    // The position moves by more than writes.
    for (int i = 0; i < 6; i++) {
        char byte;
        check(lseek(file, 3 * i, SEEK_SET));
        if (read(file, &byte, 1) != 1) return 3;
        put(file, "XY");
        check(lseek(file, 0, SEEK_END));
        put(file, "end\n");
    }
    // Errors, and less than was asked for.
    const void *volatile nowhere = (const void *)8;
    if (write(file, nowhere, 5) != -1 || errno != EFAULT) return 4;
    put(file, "after a bad one\n");
    signal(SIGXFSZ, SIG_IGN);
    off_t size = check(lseek(file, 0, SEEK_END));
    struct rlimit limit = {size + 3, RLIM_INFINITY};
    check(setrlimit(RLIMIT_FSIZE, &limit));
    if (write(file, "short", 5) != 3) return 5;
    if (write(file, "none", 4) != -1 || errno != EFBIG) return 6;
    limit.rlim_cur = RLIM_INFINITY;
    check(setrlimit(RLIMIT_FSIZE, &limit));
    put(file, "again\n");
    // Another number for the same description, and a number that becomes another file.
    int third = check(dup(file));
    put(third, "by another number\n");
    put(file, "by the first\n");
    put(third, "by another number\n");
    check(close(third));
    third = check(open("c", O_WRONLY | O_CREAT, 0644));
    for (int i = 0; i < 4; i++) put(third, "c\n");
    deep(3);
    deep(100);
    static char much[100000];
    memset(much, 'm', sizeof much);
    for (int i = 0; i < 4; i++) put(file, "small\n");
    if (write(file, much, sizeof much) != sizeof much) return 7;
    for (int i = 0; i < 2000; i++) put(file, "more than the memory holds\n");
    // Without an end of its own: the last writes are known by the end of the program.
    pid_t child = check(fork());
    if (child == 0) {
        for (int i = 0; i < 5; i++) put(file, "child\n");
        _exit(0);
    }
    check(waitpid(child, NULL, 0));
    for (int i = 0; i < 5; i++) put(file, "parent\n");
    if (count > 2) {
        char *again[] = {arguments[0], arguments[1], NULL};
        execv(arguments[0], again);
    }
    return 0;
}
