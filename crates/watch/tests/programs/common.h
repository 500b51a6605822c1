// What every program here needs.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <linux/fs.h>
#include <spawn.h>
#include <unistd.h>

#define check(call) checked((long)(call), #call, __LINE__)

static inline int checked(long result, const char *call, int line) {
    if (result == -1) {
        fprintf(stderr, "line %d: %s: %s\n", line, call, strerror(errno));
        _exit(99);
    }
    return (int)result;
}

static inline void put(int file, const char *text) {
    size_t length = strlen(text);
    if (write(file, text, length) != (ssize_t)length) _exit(98);
}

static inline void make_file(mode_t mode, const char *name, const char *text) {
    int file = check(open(name, O_WRONLY | O_CREAT | O_TRUNC, mode));
    put(file, text);
    check(close(file));
}
