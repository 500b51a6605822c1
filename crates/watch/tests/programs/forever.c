// Never ends, and neither does its child.
#include "common.h"

int main(int count, char **arguments) {
    check(chdir(arguments[1]));
    int file = check(open("f", O_WRONLY | O_CREAT, 0644));
    put(file, "started\n");
    fork();
    for (;;) pause();
    return count;
}
