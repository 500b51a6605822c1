// A thread that is not the first one starts another program.
#include "common.h"

static char **command;

static void *start(void *unused) {
    execv(command[0], command);
    return unused;
}

int main(int count, char **arguments) {
    if (count == 3) {
        check(chdir(arguments[1]));
        int file = check(open("f", O_WRONLY | O_APPEND));
        put(file, "by the second program\n");
        return 0;
    }
    char *again[] = {arguments[0], arguments[1], "again", NULL};
    command = again;
    check(chdir("/"));
    char path[4096];
    snprintf(path, sizeof path, "%s/f", arguments[1]);
    int file = check(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    put(file, "by the first program\n");
    pthread_t thread;
    pthread_create(&thread, NULL, start, NULL);
    for (;;) pause();
}
