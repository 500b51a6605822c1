// SPDX-License-Identifier: MIT OR Apache-2.0
//
// An array that grows and shrinks at its end. It has no keys: what it answers with is printed, and
// the sum over all of it says whether everything is in its place.
//
// Elements lie in one block, which is replaced by a larger or smaller one, a copy, by one store to
// the array's head. An element counts once the length says so, and the length is stored when the
// element is durable. So there is nothing to recover.
//
// Blocks are known by their offset, so the pool may be mapped anywhere.

#define PM_FLUSH_CLWB
#define PM_FENCE_SFENCE_ASM
#include "pm.h"

#define DRIVER_OPS (OPS_QUEUE | 1u << OP_UPDATE | 1u << OP_SCAN)
#include "driver.h"

enum { LEAST_LOG = 3 };

// The block changes seldom, the length always: they have a line each.
struct array {
    uint64_t block; // its offset, and in the lower bits the logarithm of its capacity
    uint64_t unused_block[7];
    uint64_t length;
    uint64_t unused_length[7];
};

static struct array *array;

static uint64_t *elements(void) {
    return (uint64_t *)pm_at(array->block & ~(uint64_t)(PM_LINE - 1));
}

static unsigned log_capacity(void) {
    return array->block & (PM_LINE - 1);
}

static size_t block_bytes(unsigned log) {
    return sizeof(uint64_t) << log;
}

// ---- the block ----------------------------------------------------------------------------

// A block of another capacity takes the place of this one.
static void move_to(unsigned log) {
    uint64_t *old = elements();
    unsigned old_log = log_capacity();
    uint64_t *fresh = (uint64_t *)pm_alloc(block_bytes(log));
    size_t bytes = array->length * sizeof(uint64_t);
    memcpy(fresh, old, bytes); //~ BUG_COPY_WITH_BLOCK ordering needed
#ifndef BUG_COPY_WITH_BLOCK
    pm_persist(fresh, bytes);
#endif
#ifdef BUG_CLEARED_FIRST
    pm_store(old[0], 0); //~ BUG_CLEARED_FIRST ordering ahead //~ BUG_CLEARED_FIRST atomicity ahead
    pm_persist(old, sizeof *old);
#endif
    pm_store(array->block, pm_offset(fresh) | log);
    //~ BUG_COPY_WITH_BLOCK ordering ahead
    //~ BUG_CLEARED_FIRST ordering needed //~ BUG_CLEARED_FIRST atomicity needed
#ifdef BUG_COPY_WITH_BLOCK
    pm_flush(fresh, bytes);
#endif
    pm_persist(&array->block, sizeof array->block);
    pm_free(old, block_bytes(old_log));
}

static void make_room(uint64_t length) {
    unsigned log = log_capacity();
    while (length > 1ull << log) {
        log++;
    }
    if (log > log_capacity()) {
        move_to(log);
    }
}

static void give_room_back(void) {
    unsigned log = log_capacity();
    if (log > LEAST_LOG && array->length && array->length < (1ull << log) / 4) {
        move_to(log - 1);
    }
}

// ---- its end ------------------------------------------------------------------------------

static void set_length(uint64_t length) {
    pm_store(array->length, length); //~ BUG_LENGTH_FIRST ordering ahead
    //~ BUG_BATCH_IN_STEPS atomicity ahead //~ BUG_BATCH_IN_STEPS atomicity needed
    pm_persist(&array->length, sizeof array->length);
}

static void put(uint64_t at, uint64_t value) {
    uint64_t *element = &elements()[at];
    pm_store(*element, value); //~ BUG_LENGTH_FIRST ordering needed
    //~ BUG_SET_NO_FLUSH durability needed //~ BUG_SET_NO_FLUSH missing-flush
}

static void persist_elements(uint64_t from, uint64_t count) {
    pm_persist(&elements()[from], count * sizeof(uint64_t));
}

// Appends `count` elements: all of them or none.
static struct op_result append(uint64_t first, uint64_t count) {
    uint64_t length = array->length;
    make_room(length + count);
#ifdef BUG_LENGTH_FIRST
    set_length(length + count);
#endif
    for (uint64_t i = 0; i < count; i++) {
        put(length + i, first + i);
#ifdef BUG_BATCH_IN_STEPS
        persist_elements(length + i, 1);
        set_length(length + i + 1);
#endif
    }
#ifndef BUG_BATCH_IN_STEPS
    persist_elements(length, count);
#endif
#if !defined(BUG_LENGTH_FIRST) && !defined(BUG_BATCH_IN_STEPS)
    set_length(length + count);
#endif
    return op_value(length + count);
}

// Takes up to `limit` elements off the end; answers with their sum.
static struct op_result take(uint64_t limit) {
    uint64_t length = array->length;
    uint64_t count = limit < length ? limit : length;
    if (count == 0) {
        return op_status(ST_EMPTY);
    }
    uint64_t sum = 0;
    for (uint64_t i = length - count; i < length; i++) {
        sum += elements()[i];
    }
    set_length(length - count);
    give_room_back();
    return op_value(sum);
}

// ---- its middle ---------------------------------------------------------------------------

// Places count from 1 and go round.
static struct op_result set(uint64_t place, uint64_t value) {
    if (array->length == 0) {
        return op_status(ST_EMPTY);
    }
    uint64_t at = (place - 1) % array->length;
    put(at, value);
#ifndef BUG_SET_NO_FLUSH
    persist_elements(at, 1);
#endif
    return op_value(at + 1);
}

// The sum over the elements from a place on, each weighed by where it is.
static struct op_result sum(uint64_t place, uint64_t count) {
    uint64_t all = 0;
    for (uint64_t i = place - 1; i < array->length && count; i++, count--) {
        all = all * 31 + elements()[i];
    }
    return op_value(all);
}

// ---- the driver's side --------------------------------------------------------------------

static void store_open(const char *path) {
    pm_open(path, 0x41525241);
    if (!pm_root()) {
        struct array *fresh = (struct array *)pm_alloc(sizeof *fresh);
        fresh->block = pm_offset(pm_alloc(block_bytes(LEAST_LOG))) | LEAST_LOG;
        fresh->length = 0;
        pm_flush(&fresh->block, sizeof fresh->block);
        pm_flush(&fresh->length, sizeof fresh->length);
        pm_fence();
        pm_set_root(fresh);
    }
    array = (struct array *)pm_root();
}

static struct op_result store_apply(const struct op *op) {
    switch (op->kind) {
    case OP_ENQUEUE:
        return append(op->a, 1);
    case OP_BATCH:
        return append(op->a, op->b);
    case OP_DEQUEUE:
        return take(1);
    case OP_DRAIN:
        return take(op->a);
    case OP_UPDATE:
        return set(op->a, op->b);
    case OP_SCAN:
        return sum(op->a, op->b);
    case OP_LENGTH:
        return op_value(array->length);
    default:
        return array->length ? op_value(elements()[array->length - 1]) : op_status(ST_EMPTY);
    }
}

static void store_close(void) {
    pm_close();
}
