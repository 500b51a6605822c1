// Asks for rings, and writes as ever when there are none.
#include "common.h"

int main(int count, char **arguments) {
    check(chdir(arguments[1]));
    char parameters[256] = {0};
    if (syscall(SYS_io_uring_setup, 8, parameters) != -1 || errno != ENOSYS) return 2;
    unsigned long context = 0;
    if (syscall(SYS_io_setup, 8, &context) != -1 || errno != ENOSYS) return 3;
    int file = check(open("f", O_WRONLY | O_CREAT, 0644));
    put(file, "by hand");
    // A call that no kernel has yet.
    if (syscall(999) != -1) return 4;
    return count - 2;
}
