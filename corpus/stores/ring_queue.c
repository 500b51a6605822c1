// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A ring of messages of varying length between one producer and one consumer. The ring is counted
// in cache lines: head and tail only ever grow, their remainders are places, and a message fills
// consecutive lines. One that would run over the end of the ring is preceded by a filler up to it.
//
// A message is composed in DRAM and streamed into the ring past the cache: the consumer reads it
// much later, if at all. Once a fence has made it durable, one store to the tail appends it, or a
// whole batch of messages; one store to the head consumes them. So there is nothing to recover.
//
// Places are counted from the start of the ring, so the pool may be mapped anywhere.

#define PM_FLUSH_CLFLUSHOPT
#define PM_FENCE_SFENCE_ASM
#include "pm.h"

#define DRIVER_OPS OPS_QUEUE
#include "driver.h"

enum { RING_LINES = 128, DIGITS = 15, MAX_TEXT = 240, MAX_LINES = 4 };

// The first 8 bytes of a message; the text follows.
struct header {
    uint32_t lines;
    uint32_t length; // 0: a filler
};

struct line {
    char bytes[PM_LINE];
};

// Producer and consumer write to different lines.
struct queue {
    uint64_t head;
    uint64_t unused_head[7];
    uint64_t tail;
    uint64_t unused_tail[7];
#ifdef BUG_USED_BESIDE_TAIL
    uint64_t used;
    uint64_t unused_used[7];
#endif
#ifdef BUG_HEAD_COPY_IN_POOL
    uint64_t head_copy; // what the producer last saw, to spare it the consumer's line
    uint64_t unused_copy[7];
#endif
    struct line ring[RING_LINES];
};

static struct queue *queue;

// ---- messages -----------------------------------------------------------------------------

// The driver's numbers stand for messages: 15 digits, repeated to a length that depends on the
// number, so that every size occurs and a torn message is noticed.
static uint32_t text_length(uint64_t value) {
    return DIGITS + (uint32_t)(value % (MAX_TEXT - DIGITS));
}

static uint32_t message_lines(uint64_t value) {
    return (uint32_t)((sizeof(struct header) + text_length(value) + PM_LINE - 1) / PM_LINE);
}

static void compose(struct line *out, uint64_t value) {
    struct header h = {message_lines(value), text_length(value)};
    char *text = out->bytes + sizeof h;
    memset(out, 0, h.lines * sizeof *out);
    memcpy(out, &h, sizeof h);
    for (int i = DIGITS - 1; i >= 0; i--, value /= 10) {
        text[i] = (char)('0' + value % 10);
    }
    for (uint32_t i = DIGITS; i < h.length; i++) {
        text[i] = text[i - DIGITS];
    }
}

// 0 stands for a message that is not whole.
static uint64_t decompose(const struct line *in) {
    const struct header *h = (const struct header *)in;
    const char *text = in->bytes + sizeof *h;
    if (h->lines > MAX_LINES || h->length < DIGITS || h->length > MAX_TEXT) {
        return 0;
    }
    uint64_t value = 0;
    for (uint32_t i = 0; i < h->length; i++) {
        if (i < DIGITS) {
            value = value * 10 + (uint64_t)(text[i] - '0');
        } else if (text[i] != text[i - DIGITS]) {
            return 0;
        }
    }
    return value;
}

// ---- producer -----------------------------------------------------------------------------

static uint64_t used_lines(void) {
#ifdef BUG_USED_BESIDE_TAIL
    return queue->used;
#else
    return queue->tail - queue->head;
#endif
}

#ifdef BUG_USED_BESIDE_TAIL
static void set_used(uint64_t used) {
    pm_store(queue->used, used); //~ BUG_USED_BESIDE_TAIL atomicity needed
    pm_persist(&queue->used, sizeof queue->used);
}
#endif

// How many lines from `tail` on the message takes, with the filler it may need.
static uint64_t lines_from(uint64_t tail, uint64_t value) {
    uint64_t to_end = RING_LINES - tail % RING_LINES;
    uint64_t lines = message_lines(value);
    return lines > to_end ? lines + to_end : lines;
}

// Streams one message, and its filler, into lines that are free. Durable after the next fence.
static void write_message(uint64_t tail, uint64_t value) {
    _Alignas(PM_LINE) struct line draft[MAX_LINES];
    uint64_t at = tail % RING_LINES;
    uint64_t to_end = RING_LINES - at;
    if (message_lines(value) > to_end) {
        struct header filler = {(uint32_t)to_end, 0};
        memset(draft, 0, sizeof *draft);
        memcpy(draft, &filler, sizeof filler);
        pm_copy_nt(&queue->ring[at], draft, sizeof *draft);
        at = 0;
    }
    compose(draft, value);
    pm_copy_nt(&queue->ring[at], draft, message_lines(value) * sizeof *draft);
#ifdef BUG_STREAMED_FLUSHED
    pm_flush(&queue->ring[at], sizeof *draft); //~ BUG_STREAMED_FLUSHED extra-flush
#endif
}

static void set_tail(uint64_t tail) {
#ifdef BUG_USED_BESIDE_TAIL
    uint64_t used = queue->used + (tail - queue->tail);
#endif
    pm_store(queue->tail, tail); //~ BUG_TAIL_WITH_MESSAGE ordering ahead
    //~ BUG_BATCH_IN_STEPS atomicity ahead //~ BUG_BATCH_IN_STEPS atomicity needed
    //~ BUG_USED_BESIDE_TAIL atomicity ahead //~ BUG_TAIL_NO_FENCE durability needed
    pm_flush(&queue->tail, sizeof queue->tail); //~ BUG_TAIL_NO_FENCE missing-fence
#ifndef BUG_TAIL_NO_FENCE
    pm_fence();
#endif
#ifdef BUG_USED_BESIDE_TAIL
    set_used(used);
#endif
}

// Appends `count` messages: all of them or, if there is no room, none.
static struct op_result append(uint64_t first, uint64_t count) {
    uint64_t tail = queue->tail;
#ifdef BUG_HEAD_COPY_IN_POOL
    queue->head_copy = queue->head; //~ BUG_HEAD_COPY_IN_POOL unpersisted
#endif
    uint64_t end = tail;
    for (uint64_t i = 0; i < count; i++) {
        end += lines_from(end, first + i);
        if (used_lines() + (end - tail) > RING_LINES) {
            return op_status(ST_FULL);
        }
    }
    for (uint64_t i = 0; i < count; i++) {
        write_message(tail, first + i);
        tail += lines_from(tail, first + i);
#ifdef BUG_BATCH_IN_STEPS
        pm_fence();
        set_tail(tail);
#endif
    }
#ifndef BUG_BATCH_IN_STEPS
#ifndef BUG_TAIL_WITH_MESSAGE
    pm_fence();
#endif
    set_tail(tail);
#endif
    return op_status(ST_OK);
}

// ---- consumer -----------------------------------------------------------------------------

// The place of the first message at or behind `at`.
static uint64_t skip_filler(uint64_t at) {
    const struct header *h = (const struct header *)&queue->ring[at % RING_LINES];
    return h->length ? at : at + h->lines;
}

static const struct line *message_at(uint64_t at) {
    return &queue->ring[at % RING_LINES];
}

// A message that is not whole is passed over line by line, so that it cannot stall the consumer.
static uint64_t behind(uint64_t at) {
    uint32_t lines = ((const struct header *)message_at(at))->lines;
    return at + (lines && lines <= MAX_LINES ? lines : 1);
}

static struct op_result peek(void) {
    if (used_lines() == 0) {
        return op_status(ST_EMPTY);
    }
    return op_value(decompose(message_at(skip_filler(queue->head))));
}

static struct op_result dequeue(void) {
    if (used_lines() == 0) {
#ifdef BUG_FENCE_ON_EMPTY
        pm_fence(); //~ BUG_FENCE_ON_EMPTY extra-fence
#endif
        return op_status(ST_EMPTY);
    }
    uint64_t at = skip_filler(queue->head);
    uint64_t value = decompose(message_at(at));
    uint64_t head = behind(at);
#ifdef BUG_USED_BESIDE_TAIL
    uint64_t used = queue->used - (head - queue->head);
#endif
    pm_store(queue->head, head); //~ BUG_DEQUEUE_NO_FLUSH missing-flush
    //~ BUG_USED_BESIDE_TAIL atomicity ahead //~ BUG_DEQUEUE_NO_FLUSH durability needed
#ifndef BUG_DEQUEUE_NO_FLUSH
    pm_persist(&queue->head, sizeof queue->head);
#endif
#ifdef BUG_USED_BESIDE_TAIL
    set_used(used);
#endif
    return op_value(value);
}

// Consumes up to `limit` messages at once; answers with the sum of their numbers.
static struct op_result drain(uint64_t limit) {
    uint64_t at = queue->head;
    uint64_t end = at + used_lines();
    uint64_t sum = 0;
    for (; limit && at < end; limit--) {
        at = skip_filler(at);
        sum += decompose(message_at(at));
        at = behind(at);
    }
    if (at == queue->head) {
        return op_status(ST_EMPTY);
    }
#ifdef BUG_USED_BESIDE_TAIL
    uint64_t used = queue->used - (at - queue->head);
#endif
    pm_store(queue->head, at); //~ BUG_USED_BESIDE_TAIL atomicity ahead
    pm_persist(&queue->head, sizeof queue->head);
#ifdef BUG_USED_BESIDE_TAIL
    set_used(used);
#endif
    return op_value(sum);
}

static struct op_result length(void) {
    uint64_t at = queue->head;
    uint64_t end = at + used_lines();
    uint64_t messages = 0;
    for (; at < end; messages++) {
        at = behind(skip_filler(at));
    }
    return op_value(messages);
}

// ---- the driver's side --------------------------------------------------------------------

static void store_open(const char *path) {
    pm_open(path, 0x52494e47);
    if (!pm_root()) {
        // The ring itself needs no contents before the tail passes over it.
        struct queue *fresh = (struct queue *)pm_alloc(sizeof *fresh);
        fresh->head = 0;
        fresh->tail = 0;
        pm_flush(&fresh->head, sizeof fresh->head);
        pm_flush(&fresh->tail, sizeof fresh->tail);
#ifdef BUG_USED_BESIDE_TAIL
        fresh->used = 0;
        pm_flush(&fresh->used, sizeof fresh->used);
#endif
        pm_fence();
        pm_set_root(fresh);
    }
    queue = (struct queue *)pm_root();
}

static struct op_result store_apply(const struct op *op) {
    switch (op->kind) {
    case OP_ENQUEUE:
        return append(op->a, 1);
    case OP_BATCH:
        return append(op->a, op->b);
    case OP_DEQUEUE:
        return dequeue();
    case OP_DRAIN:
        return drain(op->a);
    case OP_LENGTH:
        return length();
    default:
        return peek();
    }
}

static void store_close(void) {
    pm_close();
}
