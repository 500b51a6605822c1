// A timer interrupts calls all the time; its handler writes too. Reading from a pipe is restarted.
#include "common.h"

static int by_handler, ticks;

static void tick(int signal) {
    (void)signal;
    ticks++;
    if (write(by_handler, "tick\n", 5) != 5) _exit(97);
}

int main(int count, char **arguments) {
    check(chdir(arguments[1]));
    by_handler = check(open("ticks", O_WRONLY | O_CREAT, 0644));
    int pipe_ends[2];
    check(pipe(pipe_ends));
    pid_t child = check(fork());
    if (child == 0) {
        // Ends the reader's wait once the timer has rung for it.
        while (1) {
            struct stat stat;
            check(fstat(by_handler, &stat));
            if (stat.st_size >= 25) break;
            sched_yield();
        }
        put(pipe_ends[1], "x");
        _exit(0);
    }
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    check(sigaction(SIGALRM, &action, NULL));
    struct itimerval every = {{0, 2000}, {0, 2000}};
    check(setitimer(ITIMER_REAL, &every, NULL));
    char byte;
    if (read(pipe_ends[0], &byte, 1) != 1) return 2;
    int file = check(open("lines", O_WRONLY | O_CREAT, 0644));
    while (ticks < 20) {
        put(file, "line\n");
        check(fsync(file));
    }
    struct itimerval never = {{0, 0}, {0, 0}};
    check(setitimer(ITIMER_REAL, &never, NULL));
    check(waitpid(child, NULL, 0));
    // Ends as it would without anybody watching.
    signal(SIGUSR1, SIG_DFL);
    raise(SIGUSR1);
    return count;
}
