// A document that is saved by writing a new file and renaming it over the old one.
//
// Correct: the data is durable before the rename, and the rename before the acknowledgement.
#include "driver.h"

const int OPERATIONS = 3;

static int document(int version, char *into) {
    int size = sprintf(into, "version %d\n", version);
    // Each version has its own length, so that no mixture of two looks like one of them.
    for (int i = 0; i < 20 + version * 7; i++) size += sprintf(into + size, "line %d of %d\n", i, version);
    return size;
}

static void save(int version) {
    char text[4096];
    int size = document(version, text);
    int fd = must(open("document.tmp", O_CREAT | O_TRUNC | O_WRONLY, 0644));
    must(write(fd, text, size));
    //~ BUG_NO_SYNC ordering needed on all but ext4-journal
    //~ BUG_NO_FILE_SYNC ordering needed on all but ext4-journal
    //~ BUG_NO_SYNC durability needed on all but ext4-journal
    //~ BUG_NO_FILE_SYNC durability needed on all but ext4-journal
#if !defined(BUG_NO_SYNC) && !defined(BUG_NO_FILE_SYNC)
    must(fsync(fd));
#endif
    must(close(fd));
    must(rename("document.tmp", "document"));
    //~ BUG_NO_SYNC ordering ahead on all but ext4-journal
    //~ BUG_NO_SYNC durability needed on all
    //~ BUG_NO_FILE_SYNC ordering ahead on all but ext4-journal
    //~ BUG_NO_DIR_SYNC durability needed on all
#if !defined(BUG_NO_SYNC) && !defined(BUG_NO_DIR_SYNC)
    int folder = must(open(".", O_RDONLY | O_DIRECTORY));
    must(fsync(folder));
    must(close(folder));
#endif
}

static void init(void) {
    save(0);
}

static void apply(int number) {
    save(number);
}

static int recover(void) {
    char found[8192], expected[4096];
    long size = slurp("document", found, sizeof found);
    if (size < 0) wrong("the document is gone");
    for (int version = 0; version <= OPERATIONS; version++) {
        if (document(version, expected) == size && !memcmp(found, expected, size)) return version;
    }
    wrong("the document is none of its versions: %ld bytes that begin with %.20s", size, found);
}
