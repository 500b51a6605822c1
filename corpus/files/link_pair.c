// A document that is replaced by rename, and then published under two names.
//
// Correct: the rename is durable before the acknowledgement, and recovery takes one name without the
// other for a publication that did not happen. With both bugs a crash can show either of them: an
// update that was acknowledged and is lost, or one name alone. Neither may hide the other.
#include "driver.h"

#ifdef BUG_BOTH
#define BUG_NO_DIR_SYNC
#define BUG_ONE_NAME
#endif

const int OPERATIONS = 2;

static void replace(const char *text) {
    int fd = must(open("document.tmp", O_CREAT | O_TRUNC | O_WRONLY, 0644));
    must(write(fd, text, strlen(text)));
    must(fsync(fd));
    must(close(fd));
    must(rename("document.tmp", "document"));
    //~ BUG_NO_DIR_SYNC durability needed on all
    //~ BUG_BOTH durability needed on all
}

static void sync_folder(void) {
    int folder = must(open(".", O_RDONLY | O_DIRECTORY));
    must(fsync(folder));
    must(close(folder));
}

static void init(void) {
    replace("old");
    sync_folder();
}

static void apply(int number) {
    if (number == 1) {
        replace("new");
#ifndef BUG_NO_DIR_SYNC
        sync_folder();
#endif
    } else {
        must(link("document", "first"));
        //~ BUG_ONE_NAME atomicity ahead on all
        //~ BUG_BOTH atomicity ahead on all
        //~ BUG_ONE_NAME ordering needed on posix
        //~ BUG_BOTH ordering needed on posix
        must(link("document", "second"));
        //~ BUG_ONE_NAME atomicity needed on all
        //~ BUG_BOTH atomicity needed on all
        //~ BUG_ONE_NAME ordering ahead on posix
        //~ BUG_BOTH ordering ahead on posix
        sync_folder();
    }
}

static int recover(void) {
    char text[16];
    if (slurp("document", text, sizeof text) < 0) wrong("the document is gone");
    int names = (access("first", F_OK) == 0) + (access("second", F_OK) == 0);
#ifdef BUG_ONE_NAME
    if (names == 1) wrong("published under one name only");
#endif
    if (!strcmp(text, "old")) return 0;
    if (strcmp(text, "new")) wrong("neither the old document nor the new one");
    return 1 + (names == 2);
}
