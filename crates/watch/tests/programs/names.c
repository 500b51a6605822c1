// Everything that can be done to names.
#include "common.h"

int main(int count, char **arguments) {
    check(chdir(arguments[1]));
    check(mkdir("d", 0755));
    check(mkdirat(AT_FDCWD, "d/e/", 0700));
    make_file(0600, "d/e/deep", "deep");
    make_file(0600, "a", "first");
    make_file(0600, "b", "second");
    check(symlink("a", "to-a"));
    make_file(0600, "to-a", "through a link");
    check(symlink("d/new", "dangling"));
    make_file(0600, "dangling", "made through a link");
    check(link("a", "also-a"));
    check(rename("b", "also-a"));
    check(rename("d", "moved"));
    make_file(0600, "moved/e/later", "later");
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
    make_file(0600, "in-moved", "relative to another folder");
    check(link("in-moved", "../linked"));
    check(unlink("in-moved"));
    // The same inode number again, most likely, and another file.
    make_file(0600, "../x", "x");
    check(unlink("../x"));
    make_file(0600, "../y", "y");
    if (unlink("not-there") != -1) return 3;
    return count - 2;
}
