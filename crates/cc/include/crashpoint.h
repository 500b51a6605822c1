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
// A line of several operations with "||" between them is run at once, each in a thread of its own,
// if the program says that it can do that:
//
//   #define CRASHPOINT_THREADS          // beside CRASHPOINT_MAIN
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
#ifdef CRASHPOINT_THREADS
#include <pthread.h>
#include <sched.h>
#endif

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

// The "||" that ends the first operation of a line, if there is one.
static char *crashpoint_bar(char *line) {
    for (char *at = line; (at = strstr(at, "||")) != NULL; at += 2) {
        int begins = at == line || strchr(" \t\v\f", at[-1]) != NULL;
        if (begins && strchr(" \t\v\f\r", at[2]) != NULL) {
            return at;
        }
    }
    return NULL;
}

#ifdef CRASHPOINT_THREADS

#define CRASHPOINT_LANES 4

// Threads that are ready; all go when the last one is.
static struct {
    int ready;
    int count;
} crashpoint_start;

static const char *crashpoint_go(void *operation) {
    const char *text = (const char *)operation;
    __atomic_add_fetch(&crashpoint_start.ready, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&crashpoint_start.ready, __ATOMIC_ACQUIRE) < crashpoint_start.count) {
        sched_yield();
    }
    return text + strspn(text, " \t\v\f\r");
}

// One function for each, so that a recording tells which operation of a line a call is.
#define CRASHPOINT_LANE(number)                                  \
    static void *crashpoint_lane_##number(void *operation) {     \
        crashpoint_apply(crashpoint_go(operation));              \
        return NULL;                                             \
    }
CRASHPOINT_LANE(0)
CRASHPOINT_LANE(1)
CRASHPOINT_LANE(2)
CRASHPOINT_LANE(3)

static void crashpoint_apply_at_once(char *line) {
    static void *(*const lanes[CRASHPOINT_LANES])(void *) = {
        crashpoint_lane_0, crashpoint_lane_1, crashpoint_lane_2, crashpoint_lane_3};
    pthread_t threads[CRASHPOINT_LANES];
    char *operations[CRASHPOINT_LANES];
    int count = 0;
    for (char *next = line; next;) {
        if (count == CRASHPOINT_LANES) {
            crashpoint_reject("at most four operations can run at once");
        }
        char *bar = crashpoint_bar(next);
        operations[count++] = next;
        next = bar ? bar + 2 : NULL;
        if (bar) {
            *bar = 0;
            while (bar > operations[count - 1] && strchr(" \t\v\f", bar[-1])) {
                *--bar = 0;
            }
        }
    }
    crashpoint_start.ready = 0;
    crashpoint_start.count = count;
    for (int lane = 0; lane < count; lane++) {
        errno = pthread_create(&threads[lane], NULL, lanes[lane], operations[lane]);
        if (errno != 0) {
            crashpoint_fail("a thread for an operation");
        }
    }
    for (int lane = 0; lane < count; lane++) {
        pthread_join(threads[lane], NULL);
    }
}

#else

static void crashpoint_apply_at_once(char *line) {
    (void)line;
    crashpoint_reject("this program does not run operations at once (CRASHPOINT_THREADS)");
}

#endif

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
            if (crashpoint_bar(line)) {
                crashpoint_apply_at_once(line);
            } else {
                crashpoint_apply(line);
            }
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
