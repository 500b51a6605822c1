// A log that is replaced by a new one now and then; CURRENT says which one counts.
//
// Correct: the new log and its name are durable before CURRENT names it, and CURRENT is before the
// old log goes and before anything in the new one is acknowledged.
#include "driver.h"

const int OPERATIONS = 4;
// The first operation that goes to the new log.
enum { SWITCH_AT = 3 };

// All operations up to a number: what a log begins with stands for all before it.
struct record {
    uint32_t sum;
    uint32_t number;
    char text[56];
};

static struct record record_of(int number) {
    struct record record = {.number = number};
    snprintf(record.text, sizeof record.text, "the operation with number %d", number);
    record.sum = checksum(&record.number, sizeof record - sizeof record.sum);
    return record;
}

static void sync_folder(void) {
    int folder = must(open(".", O_RDONLY | O_DIRECTORY));
    must(fsync(folder));
    must(close(folder));
}

static void switch_log(void) {
    struct record snapshot = record_of(SWITCH_AT - 1);
    int fd = must(open("log.2", O_CREAT | O_WRONLY, 0644)); //~ BUG_NAME_NOT_SYNCED ordering needed on posix
    must(write(fd, &snapshot, sizeof snapshot)); //~ BUG_LOG_NOT_SYNCED ordering needed on all but ext4-journal
#ifndef BUG_LOG_NOT_SYNCED
    must(fsync(fd));
#endif
    must(close(fd));
#ifndef BUG_NAME_NOT_SYNCED
    sync_folder();
#endif
    fd = must(open("CURRENT.tmp", O_CREAT | O_WRONLY, 0644));
    must(write(fd, "log.2\n", 6));
    //~ BUG_CURRENT_NOT_SYNCED ordering needed on all but ext4-journal
    //~ BUG_CURRENT_NOT_SYNCED durability needed on all but ext4-journal
#ifndef BUG_CURRENT_NOT_SYNCED
    must(fsync(fd));
#endif
    must(close(fd));
#ifdef BUG_DELETED_FIRST
    must(unlink("log.1"));
    //~ BUG_DELETED_FIRST atomicity ahead on all
    //~ BUG_DELETED_FIRST ordering ahead on all
#endif
    must(rename("CURRENT.tmp", "CURRENT"));
    //~ BUG_LOG_NOT_SYNCED ordering ahead on all but ext4-journal
    //~ BUG_CURRENT_NOT_SYNCED ordering ahead on all but ext4-journal
    //~ BUG_NAME_NOT_SYNCED ordering ahead on posix
    //~ BUG_DELETED_FIRST atomicity needed on all
    //~ BUG_DELETED_FIRST ordering needed on all
    //~ BUG_FOLDER_NOT_SYNCED ordering needed on posix
    //~ BUG_FOLDER_NOT_SYNCED durability needed on posix btrfs
#ifndef BUG_FOLDER_NOT_SYNCED
    sync_folder();
#endif
#ifndef BUG_DELETED_FIRST
    must(unlink("log.1"));
    //~ BUG_FOLDER_NOT_SYNCED ordering ahead on posix
    //~ BUG_FOLDER_NOT_SYNCED durability needed on btrfs
#endif
}

static void append(const char *log, int number) {
    struct record record = record_of(number);
    int fd = must(open(log, O_WRONLY | O_APPEND));
    must(write(fd, &record, sizeof record));
    must(fsync(fd));
    must(close(fd));
}

static void init(void) {
    must(close(must(open("log.1", O_CREAT | O_WRONLY, 0644))));
    int fd = must(open("CURRENT", O_CREAT | O_WRONLY, 0644));
    must(write(fd, "log.1\n", 6));
    must(close(fd));
    sync();
}

static void apply(int number) {
    if (number == SWITCH_AT) switch_log();
    append(number < SWITCH_AT ? "log.1" : "log.2", number);
}

static int recover(void) {
    char name[64], bytes[4096];
    if (slurp("CURRENT", name, sizeof name) < 0) wrong("CURRENT is missing");
    if (strcmp(name, "log.1\n") && strcmp(name, "log.2\n")) wrong("CURRENT names `%s`", name);
    name[5] = 0;
    long size = slurp(name, bytes, sizeof bytes);
    if (size < 0) wrong("CURRENT names %s, which is missing", name);
    int found = 0;
    // What follows a torn record was never acknowledged.
    for (long at = 0; at + (long)sizeof(struct record) <= size; at += sizeof(struct record)) {
        struct record record;
        memcpy(&record, bytes + at, sizeof record);
        if (record.sum != checksum(&record.number, sizeof record - sizeof record.sum)) break;
        found = record.number;
    }
    return found;
}
