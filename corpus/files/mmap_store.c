// A value in a mapped file: two slots, a page each, written in turn.
//
// Correct: a slot is synced before the acknowledgement, and what was torn shows by its checksum, so
// that the other slot counts.
#include "driver.h"

enum { PAGE = 4096, WORDS = 400 };

const int OPERATIONS = 4;

struct slot {
    uint32_t sum;
    uint32_t version;
    uint32_t words[WORDS];
};

// What says where the value is, without a checksum, in BUG_ONE_MSYNC.
struct head {
    uint32_t version;
};

static char *map(void) {
    int fd = must(open("store", O_RDWR));
    char *pages = mmap(0, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (pages == MAP_FAILED) must(-1);
    must(close(fd));
    return pages;
}

static void fill(struct slot *slot, int version) {
    slot->version = version;
    for (int i = 0; i < WORDS; i++) slot->words[i] = version * 1000 + i;
    slot->sum = checksum(&slot->version, sizeof *slot - sizeof slot->sum);
}

static void init(void) {
    int fd = must(open("store", O_CREAT | O_RDWR, 0644));
    must(ftruncate(fd, 3 * PAGE));
    must(close(fd));
    char *pages = map();
    fill((struct slot *)(pages + PAGE), 0);
    must(msync(pages, 3 * PAGE, MS_SYNC));
    sync();
}

// Stores are noticed at the calls below: those of a shared mapping leave no trace of their own.
static void apply(int number) {
    char *pages = map();
    char *page = pages + PAGE * (1 + number % 2);
    fill((struct slot *)page, number);
#if defined(BUG_ASYNC)
    must(msync(page, PAGE, MS_ASYNC)); //~ BUG_ASYNC durability needed on all
#elif defined(BUG_ONE_MSYNC)
    ((struct head *)pages)->version = number;
    must(msync(pages, 3 * PAGE, MS_SYNC));
    //~ BUG_ONE_MSYNC ordering needed on all
    //~ BUG_ONE_MSYNC ordering ahead on all
    //~ BUG_ONE_MSYNC atomicity needed on all
    //~ BUG_ONE_MSYNC atomicity ahead on all
#elif !defined(BUG_NO_MSYNC)
    must(msync(page, PAGE, MS_SYNC));
#endif
    must(munmap(pages, 3 * PAGE)); //~ BUG_NO_MSYNC durability needed on all
}

static int is_whole(const struct slot *slot) {
    return slot->sum == checksum(&slot->version, sizeof *slot - sizeof slot->sum);
}

static int recover(void) {
    static char pages[3 * PAGE + 1];
    if (slurp("store", pages, sizeof pages) != 3 * PAGE) wrong("the store has another size");
#ifdef BUG_ONE_MSYNC
    int version = ((struct head *)pages)->version;
    const struct slot *slot = (struct slot *)(pages + PAGE * (1 + version % 2));
    if (slot->version != (uint32_t)version) wrong("slot %d has version %u", version, slot->version);
    if (!is_whole(slot)) wrong("version %d is torn", version);
    return version;
#else
    int found = -1;
    for (int i = 1; i <= 2; i++) {
        const struct slot *slot = (struct slot *)(pages + PAGE * i);
        if (is_whole(slot) && (int)slot->version > found) found = slot->version;
    }
    if (found < 0) wrong("no slot is whole");
    return found;
#endif
}
