// A timer interrupts writes, and its handler writes to the same file and to another.
#include "common.h"

static int file, by_handler;
static volatile int ticks;

static void tick(int signal) {
    (void)signal;
    ticks++;
    put(by_handler, "tick\n");
    put(file, "T");
    put(by_handler, "tock\n");
}

int main(int count, char **arguments) {
    check(chdir(arguments[1]));
    file = check(open("lines", O_WRONLY | O_CREAT, 0644));
    by_handler = check(open("ticks", O_WRONLY | O_CREAT, 0644));
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    check(sigaction(SIGALRM, &action, NULL));
    struct itimerval every = {{0, 300}, {0, 300}};
    check(setitimer(ITIMER_REAL, &every, NULL));
    while (ticks < 300) put(file, "line\n");
    kill(getpid(), SIGKILL);
    return count;
}
