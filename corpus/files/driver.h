// The main of the C programs here, and what they share.
//
//     PROGRAM init DIR             what is there, and durable, before the workload
//     PROGRAM run DIR              the operations; a line is printed for each, once it is done
//     PROGRAM verify DIR PRINTED   recovery, and whether all that was printed is there
//
// System calls stand in the programs themselves, since a finding names the line of the call.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// Given by the program, which finds itself inside DIR.
extern const int OPERATIONS;
static void init(void);
// Operations count from 1.
static void apply(int number);
// How many operations there are after a crash. What is no state between two operations is `wrong`.
static int recover(void);

static long check(long result, const char *call) {
    if (result < 0) {
        fprintf(stderr, "%s: %s\n", call, strerror(errno));
        exit(3);
    }
    return result;
}
#define must(call) check((long)(call), #call)

__attribute__((noreturn, format(printf, 1, 2))) static void wrong(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    exit(1);
}

// Whole file, with a zero behind it; -1 if there is none.
__attribute__((unused)) static long slurp(const char *name, char *into, size_t capacity) {
    int fd = open(name, O_RDONLY);
    if (fd < 0) return -1;
    long size = must(read(fd, into, capacity - 1));
    into[size] = 0;
    close(fd);
    return size;
}

// Detects torn and missing bytes; nobody forges anything here.
__attribute__((unused)) static uint32_t checksum(const void *bytes, size_t size) {
    const unsigned char *byte = bytes;
    uint32_t sum = 2166136261u;
    for (size_t i = 0; i < size; i++) sum = (sum ^ byte[i]) * 16777619u;
    return sum;
}

static int lines_of(const char *path) {
    FILE *file = fopen(path, "r");
    if (!file) must(-1);
    int lines = 0, c;
    while ((c = fgetc(file)) != EOF) lines += c == '\n';
    fclose(file);
    return lines;
}

static void verify(const char *folder, const char *printed) {
    int acknowledged = lines_of(printed);
    must(chdir(folder));
    int found = recover();
    if (found < acknowledged) wrong("%d operations were acknowledged, %d are left", acknowledged, found);
    if (found > acknowledged + 1) wrong("%d operations, of which %d had begun", found, acknowledged + 1);
}

int main(int count, char **arguments) {
    const char *what = count > 2 ? arguments[1] : "";
    if (!strcmp(what, "init")) {
        must(chdir(arguments[2]));
        init();
    } else if (!strcmp(what, "run")) {
        must(chdir(arguments[2]));
        for (int number = 1; number <= OPERATIONS; number++) {
            apply(number);
            printf("done %d\n", number);
            fflush(stdout);
        }
    } else if (!strcmp(what, "verify") && count > 3) {
        verify(arguments[2], arguments[3]);
    } else {
        fprintf(stderr, "usage: %s init DIR | run DIR | verify DIR PRINTED\n", arguments[0]);
        return 3;
    }
    return 0;
}
