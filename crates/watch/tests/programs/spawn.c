// Starts itself with vfork and exec: the new program writes by a descriptor that it was left.
#include "common.h"

extern char **environ;

int main(int count, char **arguments) {
    if (count == 4) {
        int inherited = atoi(arguments[2]), closed = atoi(arguments[3]);
        put(inherited, "by the new program\n");
        return fcntl(closed, F_GETFD) == -1 && errno == EBADF ? 5 : 1;
    }
    check(chdir(arguments[1]));
    int kept = check(open("kept", O_WRONLY | O_CREAT, 0644));
    int gone = check(open("gone", O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    put(gone, "by the old program\n");
    char left[16], lost[16];
    snprintf(left, sizeof left, "%d", kept);
    snprintf(lost, sizeof lost, "%d", gone);
    char *command[] = {arguments[0], arguments[1], left, lost, NULL};
    pid_t child;
    if (posix_spawn(&child, arguments[0], NULL, NULL, command, environ) != 0) return 2;
    int status;
    check(waitpid(child, &status, 0));
    if (WEXITSTATUS(status) != 5) return 3;
    check(close(kept));
    // And without a way back, from a process of several threads.
    child = check(fork());
    if (child == 0) execv(arguments[0], command);
    check(waitpid(child, &status, 0));
    return 0;
}
