// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Saves a note by writing a new file and renaming it over the old one. Without -DREPAIRED, nothing
// is synced: the name can be durable before what it names.

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int write_new(void) {
    const char *text = "the new note, which must be there whole or not at all\n";
    int file = open("note.new", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file < 0 || write(file, text, strlen(text)) < 0) return -1;
#ifdef REPAIRED
    if (fsync(file) != 0) return -1;
#endif
    return close(file);
}

static int sync_folder(void) {
#ifdef REPAIRED
    int folder = open(".", O_RDONLY | O_DIRECTORY);
    if (folder < 0 || fsync(folder) != 0) return -1;
    return close(folder);
#else
    return 0;
#endif
}

int main(int count, char **arguments) {
    if (count != 2 || chdir(arguments[1]) != 0) return 2;
    if (write_new() != 0 || rename("note.new", "note") != 0 || sync_folder() != 0) {
        perror("note");
        return 1;
    }
    puts("saved");
    return 0;
}
