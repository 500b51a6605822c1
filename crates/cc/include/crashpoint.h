// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Gives a program its main function, so that Crashpoint can test it:
//
//   #define CRASHPOINT_MAIN             // in one file of the program
//   #include <crashpoint.h>
//
//   void crashpoint_open(const char *pool) { ... }        // create the pool, or recover it
//   void crashpoint_apply(const char *operation) { ... }  // run one operation, print its result
//   void crashpoint_close(void) { ... }
//
// The program is then started as `program POOL OPS`. OPS is a file with one operation per line;
// blank lines, and lines that begin with '#', are skipped. What an operation prints to the standard
// output is written out before the next one begins: what was printed has been acknowledged.
//
// An operation that crashpoint_apply does not understand is told to crashpoint_reject, which names
// its line and ends the program.
//
// Works as C11 and as C++17. Programs without CRASHPOINT_MAIN get the declarations only.

#ifndef CRASHPOINT_H
#define CRASHPOINT_H

#ifdef __cplusplus
extern "C" {
#endif

// Yours. Opening a pool that does not exist creates it; opening one that does recovers it.
void crashpoint_open(const char *pool);
void crashpoint_apply(const char *operation);
void crashpoint_close(void);

// Ours: reports the operation that is being applied as one that this program does not know.
__attribute__((noreturn)) void crashpoint_reject(const char *why);

#ifdef __cplusplus
}
#endif

#ifdef CRASHPOINT_MAIN

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The list of operations, read as a whole before anything is opened: a process that forks between
// two operations shares its open files with the child, and neither must move the other along.
static struct {
    const char *path;
    char *text;
    size_t length;
    unsigned long line;
} crashpoint_list;

void crashpoint_reject(const char *why) {
    fflush(stdout);
    fprintf(stderr, "%s:%lu: %s\n", crashpoint_list.path, crashpoint_list.line, why);
    exit(1);
}

static void crashpoint_fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static void crashpoint_read(const char *path) {
    FILE *file = fopen(path, "rb");
    size_t room = 0;
    crashpoint_list.path = path;
    if (!file) {
        crashpoint_fail(path);
    }
    for (;;) {
        // One byte is left for the zero at the end.
        if (room - crashpoint_list.length < 2) {
            room = room ? 2 * room : 4096;
            crashpoint_list.text = (char *)realloc(crashpoint_list.text, room);
            if (!crashpoint_list.text) {
                crashpoint_fail(path);
            }
        }
        char *end = crashpoint_list.text + crashpoint_list.length;
        size_t got = fread(end, 1, room - crashpoint_list.length - 1, file);
        if (got == 0) {
            break;
        }
        crashpoint_list.length += got;
    }
    if (ferror(file)) {
        crashpoint_fail(path);
    }
    fclose(file);
    crashpoint_list.text[crashpoint_list.length] = 0;
}

static void crashpoint_flush(void) {
    if (fflush(stdout) != 0) {
        crashpoint_fail("standard output");
    }
}

static int crashpoint_is_operation(const char *line) {
    line += strspn(line, " \t\v\f\r");
    return *line != 0 && *line != '#';
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: %s POOL OPS\n", argc > 0 ? argv[0] : "program");
        return 1;
    }
    crashpoint_read(argv[2]);
    crashpoint_open(argv[1]);
    crashpoint_flush();
    char *const end = crashpoint_list.text + crashpoint_list.length;
    for (char *line = crashpoint_list.text; line < end;) {
        char *newline = (char *)memchr(line, '\n', (size_t)(end - line));
        char *stop = newline ? newline : end;
        crashpoint_list.line++;
        *stop = 0;
        if (strlen(line) != (size_t)(stop - line)) {
            crashpoint_reject("the line holds a zero byte");
        }
        if (stop > line && stop[-1] == '\r') {
            stop[-1] = 0;
        }
        if (crashpoint_is_operation(line)) {
            crashpoint_apply(line);
            crashpoint_flush();
        }
        line = stop + 1;
    }
    crashpoint_close();
    crashpoint_flush();
    return 0;
}

#endif
#endif
