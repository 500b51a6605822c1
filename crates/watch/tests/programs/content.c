// Everything that can be done to the content of a file.
#include "common.h"

static int make(const char *name, int flags) {
    return check(open(name, O_RDWR | O_CREAT | flags, 0644));
}

int main(int count, char **arguments) {
    check(chdir(arguments[1]));
    int file = make("offsets", 0);
    put(file, "0123456789");
    check(pwrite(file, "AB", 2, 4));
    struct iovec parts[2] = {{"one ", 4}, {"two", 3}};
    check(writev(file, parts, 2));
    check(pwritev(file, parts, 2, 30));
    check(pwritev2(file, parts, 2, -1, RWF_DSYNC));
    check(lseek(file, 3, SEEK_SET));
    int copy = check(dup(file));
    put(copy, "dup");
    put(file, "!");
    check(ftruncate(file, 50));
    check(truncate("offsets", 45));
    check(sync_file_range(file, 0, 10, SYNC_FILE_RANGE_WRITE));
    check(fdatasync(copy));

    int log = make("appended", O_APPEND);
    put(log, "start ");
    check(pwrite(log, "appended all the same ", 22, 0));
    check(fcntl(log, F_SETFL, 0));
    check(pwrite(log, "S", 1, 0));

    int synced = make("synced", O_SYNC);
    put(synced, "synced");
    int data_synced = make("data-synced", O_DSYNC);
    put(data_synced, "data");

    int blocks = make("blocks", 0);
    char page[4096];
    memset(page, 'p', sizeof page);
    for (int i = 0; i < 4; i++) put(blocks, "") , check(write(blocks, page, sizeof page));
    check(fallocate(blocks, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 4096));
    check(fallocate(blocks, FALLOC_FL_KEEP_SIZE, 0, 1 << 16));
    check(fallocate(blocks, 0, 16384, 100));

    int source = check(open("offsets", O_RDONLY));
    int target = check(open("copied", O_WRONLY | O_CREAT, 0644));
    off_t from = 2;
    check(sendfile(target, source, &from, 10));
    check(syscall(SYS_copy_file_range, source, NULL, target, NULL, 5, 0));
    int ends[2];
    check(pipe(ends));
    put(ends[1], "spliced");
    loff_t at = 20;
    check(splice(ends[0], NULL, target, &at, 7, 0));

    int nameless = check(open(".", O_TMPFILE | O_WRONLY, 0600));
    put(nameless, "without a name");
    check(fsync(nameless));
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", nameless);
    check(linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW));
    put(nameless, ", then with one");
    if (setxattr("named", "user.colour", "blue", 4, 0) == 0) {
        check(fsetxattr(nameless, "user.size", "big", 3, 0));
        check(removexattr("named", "user.colour"));
    }
    check(fchmod(nameless, 0444));
    check(syncfs(nameless));
    int gone = make("gone", 0);
    check(unlink("gone"));
    put(gone, "nobody sees this");
    // Truncated when it is opened.
    check(close(make("appended", O_TRUNC)));
    return count - 2;
}
