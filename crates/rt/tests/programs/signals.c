// Handlers that store while the interrupted code stores.
#include "hooks.h"
#include <sys/time.h>

static uint64_t *p;
static volatile sig_atomic_t handled;
static sigjmp_buf landing;

static void in_handler(uint32_t n, uint64_t *at) {
    struct thread *t = enter(20);
    store8(t, n, at, handled);
    flush(t, n + 1, at);
    leave(t);
}

static void on_alarm(int signal) {
    handled++;
    in_handler(21, p + 8);
}

static void on_info(int signal, siginfo_t *info, void *context) {
    if (signal != SIGUSR2 || info->si_pid != getpid() || !context) {
        _exit(7);
    }
    handled++;
    in_handler(31, p + 16);
    if (handled == 1) {
        raise(SIGUSR2);
    }
}

static void on_jump(int signal) {
    handled++;
    in_handler(41, p + 24);
    siglongjmp(landing, 1);
}

static void check(int good, int code) {
    if (!good) {
        fprintf(stderr, "check %d\n", code);
        exit(code);
    }
}

static void storm(struct thread *t, int wanted) {
    signal(SIGALRM, on_alarm);
    struct itimerval timer = {{0, 200}, {0, 200}};
    setitimer(ITIMER_REAL, &timer, NULL);
    for (uint64_t i = 0; handled < wanted; i++) {
        store8(t, 2, p + 100 + i % 50, i);
    }
    timer = (struct itimerval){{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &timer, NULL);
}

static void nested(struct thread *t) {
    struct sigaction action = {.sa_sigaction = on_info, .sa_flags = SA_SIGINFO | SA_NODEFER};
    check(!sigaction(SIGUSR2, &action, NULL), 10);
    store8(t, 3, p, 1);
    raise(SIGUSR2);
    store8(t, 4, p, 2);
    check(handled == 2, 11);
}

static void jump(struct thread *t) {
    signal(SIGALRM, on_jump);
    struct frame *frame = t ? t->frame : NULL;
    if (sigsetjmp(landing, 1) && t) {
        __crashpoint_resync(t, frame, SITE(5));
    }
    // One alarm for each time round.
    struct itimerval timer = {{0, 0}, {0, handled < 20 ? 300 : 0}};
    setitimer(ITIMER_REAL, &timer, NULL);
    for (uint64_t i = 0; handled < 20; i++) {
        store8(t, 6, p + 100 + i % 50, i);
    }
    signal(SIGALRM, SIG_IGN);
    store8(t, 7, p, 3);
}

static void faces(void) {
    // The program sees its own handlers, whatever stands in front of them.
    struct sigaction old, action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaddset(&action.sa_mask, SIGUSR1);
    check(!sigaction(SIGUSR1, NULL, &old) && old.sa_handler == SIG_DFL, 20);
    check(!sigaction(SIGUSR1, &action, &old) && old.sa_handler == SIG_DFL, 21);
    check(!sigaction(SIGUSR1, NULL, &old) && old.sa_handler == on_alarm, 22);
    check(!(old.sa_flags & SA_SIGINFO) && old.sa_flags & SA_RESTART, 23);
    check(sigismember(&old.sa_mask, SIGUSR1) == 1, 24);
    action.sa_sigaction = on_info;
    action.sa_flags = SA_SIGINFO | SA_RESETHAND;
    check(!sigaction(SIGUSR1, &action, &old) && old.sa_handler == on_alarm, 25);
    check(signal(SIGUSR1, SIG_IGN) == (sighandler_t)on_info, 26);
    check(signal(SIGUSR1, on_alarm) == SIG_IGN, 27);
    check(signal(SIGUSR1, SIG_DFL) == on_alarm, 28);
    check(signal(SIGUSR1, on_alarm) == SIG_DFL, 29);
    check(sigaction(SIGKILL, &action, NULL) == -1 && errno == EINVAL, 30);
    check(sigaction(999, &action, NULL) == -1 && errno == EINVAL, 31);
    check(signal(SIGSTOP, on_alarm) == SIG_ERR, 32);
    // Taken away when it runs.
    action.sa_handler = on_alarm;
    action.sa_flags = SA_RESETHAND;
    check(!sigaction(SIGUSR1, &action, NULL), 33);
    raise(SIGUSR1);
    check(handled == 1, 34);
    check(!sigaction(SIGUSR1, NULL, &old) && old.sa_handler == SIG_DFL, 35);
    check(sysv_signal(SIGUSR1, on_alarm) == SIG_DFL, 36);
    raise(SIGUSR1);
    check(handled == 2 && sysv_signal(SIGUSR1, SIG_DFL) == SIG_DFL, 37);
}

static volatile int depth;

static void on_overflow(int signal) {
    in_handler(61, p + 32);
    _exit(3);
}

static int overflow(struct thread *caller) {
    struct thread *t = enter(60);
    volatile char space[512];
    space[0] = depth++;
    int result = depth < 0 ? 0 : overflow(t) + space[0];
    leave(t);
    return result;
}

int main(int argc, char **argv) {
    p = pool(argv[1]);
    struct thread *t = enter(1);
    const char *how = argv[2];
    if (!strcmp(how, "storm")) {
        storm(t, 300);
    } else if (!strcmp(how, "nested")) {
        nested(t);
    } else if (!strcmp(how, "jump")) {
        jump(t);
    } else if (!strcmp(how, "faces")) {
        faces();
    } else if (!strcmp(how, "overflow")) {
        stack_t stack = {.ss_sp = malloc(16384), .ss_size = 16384};
        struct sigaction action = {.sa_handler = on_overflow, .sa_flags = SA_ONSTACK};
        check(!sigaltstack(&stack, NULL) && !sigaction(SIGSEGV, &action, NULL), 1);
        overflow(t);
    }
    leave(t);
    return 0;
}
