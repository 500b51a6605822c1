// Puts its output into a file of the folder, closes everything, and goes on as a daemon.
#include "common.h"

int main(int count, char **arguments) {
    check(chdir(arguments[1]));
    int log = check(open("log", O_WRONLY | O_CREAT, 0644));
    int saved = check(dup(1));
    check(dup2(log, 1));
    put(1, "this goes to the file\n");
    put(saved, "this is printed\n");
    put(2, "this is complained\n");
    int sockets[2];
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
    check(send(sockets[0], "sent", 4, 0));
    if (fork() > 0) return count - 2;
    check(setsid());
    if (fork() > 0) _exit(0);
    check(close_range(0, 2, 0));
    for (int number = 3; number < 64; number++) close(number);
    int again = check(open("log", O_WRONLY | O_APPEND));
    if (again != 0) _exit(1);
    put(0, "by the daemon\n");
    check(fsync(0));
    _exit(0);
}
