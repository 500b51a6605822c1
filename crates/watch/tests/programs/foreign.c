// Calls the kernel as a 32-bit program does.
#include "common.h"

int main(int count, char **arguments) {
    check(chdir(arguments[1]));
    long process;
    __asm__ volatile("int $0x80" : "=a"(process) : "a"(20) : "memory");
    return count;
}
