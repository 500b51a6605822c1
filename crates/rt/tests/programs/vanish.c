// The folder of the recording is renamed while the program runs, as a change of root would hide it.
#include "hooks.h"

int main(int argc, char **argv) {
    uint64_t *p = pool(argv[1]);
    struct thread *t = enter(1);
    store8(t, 2, p, 1);
    if (rename("out", "gone")) {
        return 1;
    }
    for (uint64_t i = 0; i < 100000; i++) {
        store8(t, 3, p + i % 1000, i);
    }
    pid_t child = fork();
    if (child == 0) {
        store8(t, 4, p, 2);
        leave(t);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    leave(t);
    return status;
}
