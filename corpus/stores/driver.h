// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The main function of every store:
//
//   store POOL OPS               run the operations in the file OPS, one per line
//   store POOL random:SEED:COUNT run COUNT generated operations, print one checksum
//
// An existing pool is recovered and used on. With a file, every operation is answered by one
// line, written out at once: what was printed has been acknowledged. Lines that are blank or
// start with '#' are skipped. A store that defines DRIVER_THREADS also takes several operations on
// one line, with "||" between them, and runs each in a thread of its own.
//
// A store includes this file, defines DRIVER_OPS (a mask of 1 << OP_*) before that, and
// defines store_open, store_apply and store_close.

#ifndef CORPUS_DRIVER_H
#define CORPUS_DRIVER_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum op_kind {
    OP_INSERT,
    OP_UPDATE,
    OP_GET,
    OP_DELETE,
    OP_SCAN,
    OP_ABORT,
    OP_ENQUEUE,
    OP_DEQUEUE,
    OP_PEEK,
    OP_BATCH,
    OP_DRAIN,
    OP_LENGTH,
    OP_KINDS
};

#define OPS_KV (1u << OP_INSERT | 1u << OP_UPDATE | 1u << OP_GET | 1u << OP_DELETE)
#define OPS_QUEUE                                                                           \
    (1u << OP_ENQUEUE | 1u << OP_DEQUEUE | 1u << OP_PEEK | 1u << OP_BATCH | 1u << OP_DRAIN | \
     1u << OP_LENGTH)

struct op {
    enum op_kind kind;
    uint64_t a, b;
};

enum op_status { ST_OK, ST_VALUE, ST_MISSING, ST_EXISTS, ST_FULL, ST_EMPTY, ST_ABORTED };

struct op_result {
    enum op_status status;
    uint64_t value; // printed if the status is ST_VALUE
};

// Keys are 1 to 2^63 - 1, values 1 to DRIVER_MAX_VALUE: stores may keep 0 as "none" and may keep
// a value as 15 decimal digits.
#define DRIVER_MAX_VALUE 999999999999999ull
#define DRIVER_MAX_KEY 0x7fffffffffffffffull
#define DRIVER_RANDOM_KEYS 65536u

static void store_open(const char *path);
static struct op_result store_apply(const struct op *op);
static void store_close(void);

static const struct {
    const char *name;
    int arguments;
} driver_ops[OP_KINDS] = {
    {"insert", 2}, {"update", 2},  {"get", 1},     {"delete", 1}, {"scan", 2},  {"abort", 2},
    {"enqueue", 1}, {"dequeue", 0}, {"peek", 0},   {"batch", 2},  {"drain", 1}, {"length", 0},
};

static const char *const driver_answers[] = {"ok",   "",      "missing", "exists",
                                             "full", "empty", "aborted"};

static inline struct op_result op_status(enum op_status status) {
    struct op_result r = {status, 0};
    return r;
}

static inline struct op_result op_value(uint64_t value) {
    struct op_result r = {ST_VALUE, value};
    return r;
}

static int driver_parse(const char *text, struct op *op) {
    char name[16] = "";
    op->kind = OP_KINDS;
    op->a = op->b = 0;
    int fields = sscanf(text, "%15s %" SCNu64 " %" SCNu64, name, &op->a, &op->b);
    for (unsigned k = 0; k < OP_KINDS; k++) {
        if (strcmp(name, driver_ops[k].name) == 0 && fields == driver_ops[k].arguments + 1) {
            op->kind = (enum op_kind)k;
        }
    }
    return op->kind != OP_KINDS && (DRIVER_OPS) >> op->kind & 1 && op->a <= DRIVER_MAX_KEY &&
           (op->a != 0 || fields <= 1) && op->b <= DRIVER_MAX_VALUE && (op->b != 0 || fields <= 2);
}

enum { DRIVER_LANES = 4 };

#ifdef DRIVER_THREADS
#include <pthread.h>

// How many operations run at once: the store may have them wait for each other.
static unsigned driver_at_once = 1;
static struct op driver_lane_ops[DRIVER_LANES];
static struct op_result driver_lane_results[DRIVER_LANES];

// A function for each, so that a recording tells which of the line's operations a call is.
#define DRIVER_LANE(n)                                                 \
    static void *driver_lane_##n(void *unused) {                       \
        driver_lane_results[n] = store_apply(&driver_lane_ops[n]);     \
        return unused;                                                 \
    }
DRIVER_LANE(0)
DRIVER_LANE(1)
DRIVER_LANE(2)
DRIVER_LANE(3)

static void driver_apply(const struct op *ops, struct op_result *results, unsigned count) {
    static void *(*const lanes[DRIVER_LANES])(void *) = {driver_lane_0, driver_lane_1,
                                                         driver_lane_2, driver_lane_3};
    pthread_t threads[DRIVER_LANES];
    if (count == 1) {
        *results = store_apply(ops);
        return;
    }
    memcpy(driver_lane_ops, ops, count * sizeof *ops);
    driver_at_once = count;
    for (unsigned lane = 0; lane < count; lane++) {
        if (pthread_create(&threads[lane], NULL, lanes[lane], NULL) != 0) {
            perror("a thread");
            exit(1);
        }
    }
    for (unsigned lane = 0; lane < count; lane++) {
        pthread_join(threads[lane], NULL);
    }
    driver_at_once = 1;
    memcpy(results, driver_lane_results, count * sizeof *results);
}
#else
static void driver_apply(const struct op *ops, struct op_result *results, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        results[i] = store_apply(&ops[i]);
    }
}
#endif

static int driver_file(const char *path) {
    FILE *file = fopen(path, "r");
    if (!file) {
        perror(path);
        return 1;
    }
    char text[256];
    for (unsigned line = 1; fgets(text, sizeof text, file); line++) {
        struct op ops[DRIVER_LANES];
        struct op_result results[DRIVER_LANES];
        const char *next = text + strspn(text, " \t\r\n");
        unsigned count = 0;
        if (*next == 0 || *next == '#') {
            continue;
        }
        while (next && count < DRIVER_LANES && driver_parse(next, &ops[count])) {
            count++;
            next = strstr(next, "||");
            next = next ? next + 2 : NULL;
        }
#ifndef DRIVER_THREADS
        next = count == 1 ? next : text;
#endif
        if (next) {
            fprintf(stderr, "%s:%u: not an operation of this store\n", path, line);
            fclose(file);
            return 1;
        }
        driver_apply(ops, results, count);
        for (unsigned i = 0; i < count; i++) {
            if (results[i].status == ST_VALUE) {
                printf("%" PRIu64 "\n", results[i].value);
            } else {
                puts(driver_answers[results[i].status]);
            }
        }
    }
    fclose(file);
    return 0;
}

static uint64_t driver_state;

static inline uint64_t driver_next(void) {
    uint64_t x = driver_state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    driver_state = x;
    return x >> 11;
}

static int driver_random(uint64_t seed, uint64_t count) {
    driver_state = seed * 0x9e3779b97f4a7c15ull + 0x2545f491u;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t dice = driver_next() % 20;
        struct op op = {OP_GET, 0, 0};
        if ((DRIVER_OPS) & 1u << OP_ENQUEUE) {
            op.kind = dice < 9    ? OP_ENQUEUE
                      : dice < 17 ? OP_DEQUEUE
                      : dice < 18 ? OP_PEEK
                      : dice < 19 ? OP_BATCH
                                  : OP_DRAIN;
            op.a = driver_next() % DRIVER_MAX_VALUE + 1;
            op.b = driver_next() % 4 + 1;
            if (op.kind == OP_DRAIN) {
                op.a = op.b;
            }
        } else {
            op.kind = dice < 8 ? OP_INSERT : dice < 12 ? OP_UPDATE : dice < 16 ? OP_GET : OP_DELETE;
            op.a = driver_next() % DRIVER_RANDOM_KEYS + 1;
            op.b = driver_next() % DRIVER_MAX_VALUE + 1;
        }
        struct op_result r = store_apply(&op);
        sum = (sum ^ ((uint64_t)r.status << 56) ^ r.value) * 0x100000001b3ull;
    }
    printf("%" PRIu64 " operations, checksum %016" PRIx64 "\n", count, sum);
    return 0;
}

int main(int argc, char **argv) {
    uint64_t seed, count;
    if (argc != 3) {
        fprintf(stderr, "usage: %s POOL OPS|random:SEED:COUNT\n", argv[0]);
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    store_open(argv[1]);
    int status = sscanf(argv[2], "random:%" SCNu64 ":%" SCNu64, &seed, &count) == 2
                     ? driver_random(seed, count)
                     : driver_file(argv[2]);
    store_close();
    return status;
}

#endif
