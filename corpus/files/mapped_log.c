// A log in a mapped file: records of one sector each, with a mark that says that it is there.
//
// Built with crashpoint-cc, so that its stores are seen one by one.
//
// Correct: the value is stored before the mark, and what is in one sector gets to the disk in the
// order of the stores, up to any of them. It is synced before the acknowledgement.
#include "driver.h"

enum { SECTOR = 512, RECORDS = 8, BYTES = SECTOR * RECORDS };

const int OPERATIONS = 4;

struct record {
    uint64_t is_there;
    uint64_t value;
};

static char *map(void) {
    int fd = must(open("log", O_RDWR));
    char *log = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (log == MAP_FAILED) must(-1);
    must(close(fd));
    return log;
}

static void init(void) {
    int fd = must(open("log", O_CREAT | O_RDWR, 0644));
    static char zeros[BYTES];
    must(write(fd, zeros, BYTES));
    must(close(fd));
    sync();
}

// What a log of so many records holds in the last one.
static uint64_t value_of(int number) { return number * 1000003ull; }

static void apply(int number) {
    char *log = map();
    volatile struct record *record = (struct record *)(log + SECTOR * number);
#ifdef BUG_MARK_FIRST
    record->is_there = 1;              //~ BUG_MARK_FIRST atomicity ahead on all
    record->value = value_of(number);  //~ BUG_MARK_FIRST atomicity needed on all
#else
    record->value = value_of(number);
    record->is_there = 1;
    //~ BUG_NO_SYNC durability needed on all
#endif
#ifndef BUG_NO_SYNC
    must(msync(log, BYTES, MS_SYNC));
#endif
    must(munmap(log, BYTES));
}

static int recover(void) {
    static char log[BYTES + 1];
    if (slurp("log", log, sizeof log) != BYTES) wrong("the log has another size");
    int count = 0;
    for (int number = 1; number < RECORDS; number++) {
        const struct record *record = (struct record *)(log + SECTOR * number);
        if (!record->is_there) break;
        if (record->value != value_of(number)) wrong("record %d has no value", number);
        count = number;
    }
    return count;
}
