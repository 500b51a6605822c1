// A parent and a child: one description that both have, and one log that each opens for itself.
#include "common.h"

static void append(const char *who) {
    int log = check(open("log", O_WRONLY | O_CREAT | O_APPEND, 0644));
    char line[32];
    for (int round = 0; round < 50; round++) {
        snprintf(line, sizeof line, "%s %d\n", who, round);
        put(log, line);
    }
    check(close(log));
}

int main(int count, char **arguments) {
    check(chdir(arguments[1]));
    int shared = check(open("shared", O_WRONLY | O_CREAT, 0644));
    put(shared, "before ");
    pid_t child = check(fork());
    if (child == 0) {
        put(shared, "child ");
        append("child");
        _exit(3);
    }
    append("parent");
    int status;
    check(waitpid(child, &status, 0));
    put(shared, "after\n");
    return WEXITSTATUS(status) == 3 ? count - 2 : 1;
}
