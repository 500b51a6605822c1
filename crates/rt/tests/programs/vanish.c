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
    // Nothing is recorded any more, yet parent and child keep track of their own functions.
    struct frame *frame = t ? t->frame : NULL;
    int turns[2];
    if (pipe(turns)) {
        return 1;
    }
    pid_t child = fork();
    struct thread *u = enter(4);
    if (child == 0) {
        struct thread *v = enter(5);
        store8(v, 6, p, 2);
        char done = v && v->frame != frame + 2;
        if (write(turns[1], &done, 1) != 1) {
            _exit(1);
        }
        _exit(done);
    }
    char done;
    int status;
    if (read(turns[0], &done, 1) != 1 || waitpid(child, &status, 0) != child || done) {
        return 2;
    }
    if (u && u->frame != frame + 1) {
        return 3;
    }
    leave(u);
    leave(t);
    return status;
}
