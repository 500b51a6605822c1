// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The main function of every store:
//
//   store POOL OPS               run the operations in the file OPS, one per line
//   store POOL random:SEED:COUNT run COUNT generated operations, print one checksum
//
// An existing pool is recovered and used on. With a file, every operation is answered by one
// line, written out at once: what was printed has been acknowledged. Lines that are blank or
// start with '#' are skipped.
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

static int driver_file(const char *path) {
    FILE *file = fopen(path, "r");
    if (!file) {
        perror(path);
        return 1;
    }
    char text[256];
    for (unsigned line = 1; fgets(text, sizeof text, file); line++) {
        char name[16] = "";
        struct op op = {OP_KINDS, 0, 0};
        int fields = sscanf(text, "%15s %" SCNu64 " %" SCNu64, name, &op.a, &op.b);
        if (fields < 1 || name[0] == '#') {
            continue;
        }
        for (unsigned k = 0; k < OP_KINDS; k++) {
            if (strcmp(name, driver_ops[k].name) == 0 && fields == driver_ops[k].arguments + 1) {
                op.kind = (enum op_kind)k;
            }
        }
        if (op.kind == OP_KINDS || !((DRIVER_OPS) >> op.kind & 1) || op.a > DRIVER_MAX_KEY ||
            (op.a == 0 && fields > 1) || op.b > DRIVER_MAX_VALUE || (op.b == 0 && fields > 2)) {
            fprintf(stderr, "%s:%u: not an operation of this store\n", path, line);
            fclose(file);
            return 1;
        }
        struct op_result r = store_apply(&op);
        if (r.status == ST_VALUE) {
            printf("%" PRIu64 "\n", r.value);
        } else {
            puts(driver_answers[r.status]);
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
