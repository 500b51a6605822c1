// Runs as a child of the fork server, in the way that the first argument names. The second one is
// the pool.
#include "hooks.h"
#include <sched.h>

static void touch(const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT, 0644);
    if (fd < 0) {
        _exit(99);
    }
    close(fd);
}

// Is in nobody's way: another session, no signals but those that cannot be kept off, no files.
static void hide(void) {
    setsid();
    for (int number = 1; number < 32; number++) {
        signal(number, SIG_IGN);
    }
    for (int fd = 0; fd < 256; fd++) {
        close(fd);
    }
}

static void daemonise(void) {
    pid_t middle = fork();
    if (middle == 0) {
        hide();
        if (fork() == 0) {
            hide();
            touch("daemon");
            for (;;) {
                pause();
            }
        }
        _exit(0);
    }
    waitpid(middle, NULL, 0);
}

// A tree of processes, each of which goes on starting others that end at once.
static void bomb(int depth) {
    while (depth > 0 && fork() != 0) {
        depth--;
    }
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        if (fork() == 0) {
            _exit(0);
        }
    }
}

static int reads(uint64_t *p) {
    struct thread *t = enter(1);
    if (!t) {
        return 1;
    }
    // What instrumented code does at a store, a flush and a fence.
    store8(t, 10, p + 100, 7);
    flush(t, 11, p + 100);
    fence(t, 12);
    const struct {
        size_t at, size;
    } loads[] = {{0, 8},      {12, 4},     {63, 1},    {68, 8},
                 {4096, 200}, {100 * 8, 8}, {100 * 8 + 4, 8}, {POOL_BYTES - 1, 1}};
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++) {
        const char *from = (const char *)p + loads[i].at;
        if ((uint64_t)from - gate.pm_base < gate.load_span) {
            __crashpoint_load(t, SITE(20), from, loads[i].size);
        }
    }
    int local = 0;
    __crashpoint_load(t, SITE(21), &local, 4);
    leave(t);
    // Too late: it was loaded before.
    store8(t, 13, p, 7);
    return is_candidate(p) ? 0 : 2;
}

int main(int argc, char **argv) {
    const char *way = argv[1], *path = argc > 2 ? argv[2] : "pool";
    if (!strcmp(way, "exit")) {
        return atoi(path);
    }
    if (!strcmp(way, "raise")) {
        raise(atoi(path));
    }
    if (!strcmp(way, "environment")) {
        return (getenv("CRASHPOINT_SERVE") || getenv("CRASHPOINT_READS")) ? 1 : 0;
    }
    if (!strcmp(way, "session")) {
        sigset_t set;
        sigprocmask(SIG_SETMASK, NULL, &set);
        struct rlimit core;
        getrlimit(RLIMIT_CORE, &core);
        int fd = dup(0);
        return getsid(0) != getppid() || getpgrp() != getpid() || sigismember(&set, SIGTERM) ||
               core.rlim_cur > 1 || fd != 3;
    }
    if (!strcmp(way, "count")) {
        uint64_t *p = pool(path);
        p[0]++;
        return msync(p, POOL_BYTES, MS_SYNC) ? 99 : (int)p[0];
    }
    if (!strcmp(way, "address")) {
        return pool(path) != (void *)strtoull(argv[3], NULL, 0);
    }
    if (!strcmp(way, "again")) {
        uint64_t *p = pool(path);
        munmap(p, POOL_BYTES);
        return pool(path) != p;
    }
    if (!strcmp(way, "again-after-stores")) {
        uint64_t *p = pool(path);
        p[0]++;
        munmap(p, POOL_BYTES);
        return pool(path) != p;
    }
    if (!strcmp(way, "twice")) {
        return pool(path) == pool(path);
    }
    if (!strcmp(way, "read-only")) {
        // What is refused to a shared mapping is refused.
        int fd = open(path, O_RDONLY);
        void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        return p != MAP_FAILED || errno != EACCES;
    }
    if (!strcmp(way, "fork")) {
        pool(path);
        pid_t child = fork();
        if (child == 0) {
            _exit(pool(path) == NULL);
        }
        int status;
        waitpid(child, &status, 0);
        return status;
    }
    if (!strcmp(way, "execute")) {
        execlp("true", "true", NULL);
        return 1;
    }
    if (!strcmp(way, "execute-nothing")) {
        execl("/nowhere", "nowhere", NULL);
        return 0;
    }
    if (!strcmp(way, "hang")) {
        touch("ready");
        for (;;) {
            pause();
        }
    }
    if (!strcmp(way, "daemon")) {
        daemonise();
        return 5;
    }
    if (!strcmp(way, "daemon-and-hang")) {
        daemonise();
        while (access("daemon", F_OK)) {
            sched_yield();
        }
        touch("ready");
        hide();
        for (;;) {
            pause();
        }
    }
    if (!strcmp(way, "bomb")) {
        // Some 64 processes.
        if (fork() == 0) {
            bomb(6);
        }
        return 6;
    }
    if (!strcmp(way, "large-file")) {
        int fd = open("large", O_WRONLY | O_CREAT | O_TRUNC, 0644);
        static char bytes[1 << 16];
        for (int i = 0; i < 32; i++) {
            if (write(fd, bytes, sizeof bytes) < 0) {
                return 1;
            }
        }
        return 0;
    }
    if (!strcmp(way, "memory")) {
        void *volatile block = malloc(1ul << 30);
        return block ? 0 : 3;
    }
    if (!strcmp(way, "spin")) {
        for (volatile int i = 0;; i++) {
        }
    }
    if (!strcmp(way, "input")) {
        char line[16] = "";
        return fgets(line, sizeof line, stdin) ? atoi(line) : 98;
    }
    if (!strcmp(way, "reads")) {
        return reads(pool(path));
    }
    return 97;
}
