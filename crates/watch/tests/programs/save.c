// Replaces a file by the book: temporary file, fsync, rename, fsync of the directory.
#include "common.h"

static void save(const char *text) {
    int file = check(open("note.tmp", O_WRONLY | O_CREAT | O_TRUNC, 0640));
    put(file, text);
    check(fsync(file));
    check(close(file));
    check(rename("note.tmp", "note"));
}

int main(int count, char **arguments) {
    check(chdir(arguments[1]));
    save("new content\n");
    int folder = check(open(".", O_RDONLY | O_DIRECTORY));
    check(fsync(folder));
    put(1, "saved\n");
    return count == 2 ? 7 : 1;
}
