// Ends in the way that the second argument names.
#include "hooks.h"
#include <spawn.h>

static uint64_t *p;
extern char **environ;

static void work(uint32_t n, uint64_t *at, uint64_t value) {
    struct thread *t = enter(1);
    store8(t, n, at, value);
    leave(t);
}

__attribute__((constructor(200))) static void before_main(void) {
    const char *path = getenv("POOL");
    p = pool(path);
    work(2, p, 1);
}

__attribute__((destructor(200))) static void after_main(void) {
    if (p) {
        work(9, p + 7, 9);
    }
}

static void at_exit(void) {
    work(8, p + 6, 8);
}

static int overflow(int depth) {
    struct thread *t = enter(30);
    volatile char space[256];
    memset((void *)space, depth, sizeof space);
    if (depth < 3) {
        store8(t, 31, p + 20 + depth, depth);
    }
    int result = depth < 0 ? 0 : overflow(depth + 1) + space[7];
    leave(t);
    return result;
}

static void many(uint64_t count) {
    struct thread *t = enter(40);
    for (uint64_t i = 0; i < count; i++) {
        store8(t, 41, p + 100 + i % 1000, i);
    }
    leave(t);
}

static int wait_for(pid_t child) {
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("child");
        return 1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

static int run(const char *how, char **argv) {
    if (!strcmp(how, "exit")) {
        return 5;
    } else if (!strcmp(how, "_exit")) {
        _exit(6);
    } else if (!strcmp(how, "quick_exit")) {
        quick_exit(7);
    } else if (!strcmp(how, "abort")) {
        abort();
    } else if (!strcmp(how, "kill")) {
        many(20000);
        kill(getpid(), SIGKILL);
    } else if (!strcmp(how, "overflow")) {
        return overflow(0);
    } else if (!strcmp(how, "descriptors")) {
        for (int i = 3; i < 1024; i++) {
            close(i);
        }
        many(20000);
        int fd = open("/dev/null", O_RDONLY);
        return fd == 3 ? 0 : 1;
    } else if (!strcmp(how, "exec")) {
        char *arguments[] = {argv[0], "exit", NULL};
        execv(argv[0], arguments);
        return 1;
    } else if (!strcmp(how, "execl")) {
        execl(argv[0], argv[0], "arguments", "b", "c", "d", "e", "f", "g", NULL);
        return 1;
    } else if (!strcmp(how, "execlp")) {
        setenv("PATH", ".", 1);
        execlp(strrchr(argv[0], '/') + 1, argv[0], "exit", NULL);
        return 1;
    } else if (!strcmp(how, "execle")) {
        char *environment[] = {"POOL=/nowhere/pool", NULL};
        execle(argv[0], argv[0], "exit", NULL, environment);
        return 9;
    } else if (!strcmp(how, "arguments")) {
        for (char **a = argv + 2; *a; a++) {
            fputs(*a, stdout);
        }
        return 5;
    } else if (!strcmp(how, "exec_fails")) {
        char *arguments[] = {"nothing", NULL};
        execv("/nothing/here", arguments);
        work(3, p + 1, errno);
        return 5;
    } else if (!strcmp(how, "fork")) {
        struct thread *t = enter(50);
        calling(t, 51);
        pid_t child = fork();
        if (child == 0) {
            store8(t, 52, p + 30, 52);
            work(53, p + 31, 53);
            leave(t);
            _exit(4);
        }
        int status = wait_for(child);
        store8(t, 54, p + 32, status);
        leave(t);
        return status;
    } else if (!strcmp(how, "vfork")) {
        pid_t child = vfork();
        if (child == 0) {
            _exit(4);
        }
        return wait_for(child);
    } else if (!strcmp(how, "spawn")) {
        char *arguments[] = {argv[0], "exit", NULL};
        pid_t child;
        if (posix_spawn(&child, argv[0], NULL, NULL, arguments, environ)) {
            return 1;
        }
        return wait_for(child);
    } else if (!strcmp(how, "many")) {
        many(strtoull(argv[2], NULL, 10));
    }
    return 0;
}

int main(int argc, char **argv) {
    atexit(at_exit);
    return run(argv[1], argv);
}
