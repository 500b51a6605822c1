// A journal in segments, for measuring how the time of a test grows with the operations: each
// appends a record and syncs it; every 64th begins a new segment, makes it the current one by a
// rename, and removes the one before. The folder stays as small as it is.
//
//   journal run DIR OPERATIONS      prints a line for each operation
//   journal verify DIR PRINTED      exit status 0: all that was printed is there
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RECORD = 64, RECORDS = 64 };

static int must(long result) {
    if (result < 0) {
        perror("journal");
        exit(3);
    }
    return (int)result;
}

static void sync_folder(void) {
    int folder = must(open(".", O_RDONLY | O_DIRECTORY));
    must(fsync(folder));
    must(close(folder));
}

static void record(long number, char *into) {
    memset(into, '.', RECORD);
    int length = snprintf(into, RECORD, "%ld", number);
    into[length] = '.';
    into[RECORD - 1] = '\n';
}

static void begin_segment(long first) {
    char name[32], old[32];
    snprintf(name, sizeof name, "segment-%ld", first);
    must(close(must(open(name, O_CREAT | O_WRONLY, 0644))));
    int fd = must(open("current.new", O_CREAT | O_TRUNC | O_WRONLY, 0644));
    must(write(fd, name, strlen(name)));
    must(fsync(fd));
    must(close(fd));
    sync_folder();
    must(rename("current.new", "current"));
    sync_folder();
    snprintf(old, sizeof old, "segment-%ld", first - RECORDS);
    if (first > RECORDS) must(unlink(old));
}

static void append(long number, long first) {
    char name[32], text[RECORD];
    snprintf(name, sizeof name, "segment-%ld", first);
    record(number, text);
    int fd = must(open(name, O_WRONLY | O_APPEND));
    must(write(fd, text, RECORD));
    must(fdatasync(fd));
    must(close(fd));
}

static int run(long operations) {
    for (long number = 1; number <= operations; number++) {
        long first = (number - 1) / RECORDS * RECORDS + 1;
        if (number == first) begin_segment(first);
        append(number, first);
        char line[32];
        int length = snprintf(line, sizeof line, "%ld\n", number);
        must(write(1, line, length));
    }
    return 0;
}

// The number in the last line of what was printed.
static long last_printed(const char *path) {
    int fd = must(open(path, O_RDONLY));
    char tail[65] = {0};
    off_t size = must(lseek(fd, 0, SEEK_END));
    off_t from = size > 64 ? size - 64 : 0;
    must(pread(fd, tail, 64, from));
    must(close(fd));
    long last = 0;
    for (char *line = strtok(tail, "\n"); line; line = strtok(NULL, "\n")) last = atol(line);
    return last;
}

static int wrong(const char *what, long acknowledged, long found) {
    printf("%s: %ld operations were acknowledged, %ld are there\n", what, acknowledged, found);
    return 1;
}

static int verify(long acknowledged) {
    char name[65] = {0}, text[RECORD], expected[RECORD];
    int current = open("current", O_RDONLY);
    if (current < 0) return acknowledged == 0 ? 0 : wrong("no segment", acknowledged, 0);
    must(read(current, name, 64));
    must(close(current));
    long first = strncmp(name, "segment-", 8) ? -1 : atol(name + 8);
    int fd = open(name, O_RDONLY);
    if (first < 0 || fd < 0) return wrong("the current segment is gone", acknowledged, 0);
    long found = first - 1;
    while (read(fd, text, RECORD) == RECORD) {
        record(found + 1, expected);
        // What was not finished when power failed is no record.
        if (memcmp(text, expected, RECORD)) break;
        found++;
    }
    must(close(fd));
    if (found < acknowledged) return wrong("lost", acknowledged, found);
    return found > acknowledged + 1 ? wrong("too many", acknowledged, found) : 0;
}

int main(int count, char **words) {
    if (count != 4) return 3;
    char *printed = realpath(words[3], NULL);
    must(chdir(words[2]));
    if (!strcmp(words[1], "run")) return run(atol(words[3]));
    if (!printed) return 3;
    return verify(last_printed(printed));
}
