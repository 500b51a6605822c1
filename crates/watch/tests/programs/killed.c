// Writes until it is killed; the rest of it is never there.
#include "common.h"

int main(int count, char **arguments) {
    check(chdir(arguments[1]));
    int file = check(open("f", O_WRONLY | O_CREAT, 0644));
    put(file, "before the end\n");
    kill(getpid(), SIGKILL);
    put(file, "never\n");
    return count;
}
