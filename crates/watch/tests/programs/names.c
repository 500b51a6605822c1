// Everything that can be done to names.
#include "common.h"

static void make(const char *name, const char *text) {
    int file = check(open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600));
    put(file, text);
    check(close(file));
}

int main(int count, char **arguments) {
    check(chdir(arguments[1]));
    check(mkdir("d", 0755));
    check(mkdirat(AT_FDCWD, "d/e/", 0700));
    make("d/e/deep", "deep");
    make("a", "first");
    make("b", "second");
    check(symlink("a", "to-a"));
    make("to-a", "through a link");
    check(symlink("d/new", "dangling"));
    make("dangling", "made through a link");
    check(link("a", "also-a"));
    check(rename("b", "also-a"));
    check(rename("d", "moved"));
    make("moved/e/later", "later");
    check(syscall(SYS_renameat2, AT_FDCWD, "a", AT_FDCWD, "moved/new", RENAME_EXCHANGE));
    check(syscall(SYS_renameat2, AT_FDCWD, "a", AT_FDCWD, "alone", RENAME_NOREPLACE));
    if (syscall(SYS_renameat2, AT_FDCWD, "alone", AT_FDCWD, "also-a", RENAME_NOREPLACE) != -1)
        return 2;
    check(chmod("alone", 0640));
    check(mkfifo("pipe", 0600));
    check(mkdir("short-lived", 0755));
    check(rmdir("short-lived"));
    int folder = check(open("moved", O_RDONLY | O_DIRECTORY));
    check(unlinkat(folder, "e/later", 0));
    check(fchdir(folder));
    make("in-moved", "relative to another folder");
    check(link("in-moved", "../linked"));
    check(unlink("in-moved"));
    // The same inode number again, most likely, and another file.
    make("../x", "x");
    check(unlink("../x"));
    make("../y", "y");
    if (unlink("not-there") != -1) return 3;
    return count - 2;
}
