// A runtime that writes what it is told as text, for the tests of the instrumenter. It answers
// every hook of crates/abi/src/hooks.rs, checks what can be checked inside the target, and aborts
// when a promise of the protocol is broken.
//
//   STUB_LEVEL  0 to 3; 0 when absent        STUB_LOG    the file to write, and
// <file>.flow.<thread>
//   STUB_WATCH  names of callees, by `,`     STUB_LOADS  not empty: loads are reported
//
// Persistent memory is what stub_pm() returns: 1 MiB at a fixed address.

#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct gate {
    uint32_t level, reserved;
    uint64_t pm_base, pm_span, load_span;
    uint32_t detail, reserved_too;
};
struct module {
    uint32_t abi_version, site_count;
    uint8_t model_id[16];
    uint32_t site_base, callee_count;
    struct gate *gate;
    uint8_t *watch;
    const char *callee_names;
    void **globals;
    uint32_t global_count, reserved;
};
struct frame { uint32_t site, context; };
struct thread {
    struct frame *frame;
    uint8_t *flow_cursor, *flow_limit;
    uint32_t pending, external_site;
};

enum { FRAMES = 1 << 16, FLOW = 16384, ROOM = 4096 };
#define PM_BASE ((void *)0x200000000000)
#define PM_SIZE (1u << 20)

struct state {
    struct thread thread;
    int number, flow_file;
    struct frame frames[FRAMES];
    uint8_t flow[FLOW];
};

static int log_file = -1;
static uint32_t level, next_site = 1000;
static struct gate *gates[64];
static int gate_count, thread_count, mapped;
static __thread struct state *self;
static pthread_key_t key;

static void die(const char *why) {
    dprintf(2, "stub: %s\n", why);
    abort();
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
    char line[4096];
    va_list list;
    va_start(list, format);
    int length = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    if (log_file >= 0 && write(log_file, line, length) != length)
        die("cannot write the log");
}

static void set_gates(void) {
    const char *loads = getenv("STUB_LOADS");
    for (int i = 0; i < gate_count; i++) {
        gates[i]->detail = (level >= 2) | (level >= 3) << 1 | (level && loads && *loads) << 2;
        gates[i]->level = level;
        if (mapped) {
            gates[i]->pm_base = (uint64_t)PM_BASE;
            gates[i]->pm_span = PM_SIZE;
            gates[i]->load_span = loads && *loads ? PM_SIZE : 0;
        }
    }
}

void *stub_pm(void) {
    if (!mapped) {
        void *at = mmap(PM_BASE, PM_SIZE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (at != PM_BASE)
            die("no persistent memory");
        mapped = 1;
        set_gates();
    }
    return PM_BASE;
}

static void start(void) {
    static int started;
    if (started)
        return;
    started = 1;
    const char *text = getenv("STUB_LEVEL"), *path = getenv("STUB_LOG");
    level = text ? atoi(text) : 0;
    if (level && path)
        log_file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

static int watched(const char *name) {
    const char *list = getenv("STUB_WATCH");
    size_t length = strlen(name);
    for (; list && *list; list += *list == ',') {
        const char *end = strchrnul(list, ',');
        if ((size_t)(end - list) == length && !memcmp(list, name, length))
            return 1;
        list = end;
    }
    return 0;
}

void __crashpoint_register(struct module *module) {
    start();
    if (module->abi_version != 1)
        die("another version of the protocol");
    if (!level)
        return;
    module->site_base = next_site;
    next_site += module->site_count;
    int known = 0;
    for (int i = 0; i < gate_count; i++)
        known |= gates[i] == module->gate;
    if (!known)
        gates[gate_count++] = module->gate;
    const char *name = module->callee_names;
    for (uint32_t i = 0; i < module->callee_count; i++, name += strlen(name) + 1)
        module->watch[i] = watched(name);
    say("module ");
    for (int i = 0; i < 16; i++)
        say("%02x", module->model_id[i]);
    say(" %u %u", module->site_base, module->site_count);
    for (uint32_t i = 0; i < module->global_count; i++)
        say(" %p", module->globals[i]);
    say("\n");
    set_gates();
}

void __crashpoint_unregister(struct module *module) {
    if (level && !module->site_base)
        die("a module leaves that never came");
}

static void flush_flow(struct state *state) {
    size_t length = state->thread.flow_cursor - state->flow;
    if (length > sizeof state->flow)
        die("the flow stream overran its room");
    if (state->flow_file >= 0 && write(state->flow_file, state->flow, length) != (ssize_t)length)
        die("cannot write the flow stream");
    state->thread.flow_cursor = state->flow;
}

static void leave(void *state) {
    struct state *old = self;
    self = state;
    flush_flow(state);
    say("depth %ld\n", (long)(self->thread.frame - self->frames));
    self = old;
}

__attribute__((destructor)) static void finish(void) {
    if (self)
        leave(self);
}

static struct state *mine(void) {
    if (self)
        return self;
    struct state *made = mmap(0, sizeof *made, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    made->number = __atomic_fetch_add(&thread_count, 1, __ATOMIC_SEQ_CST);
    made->thread.frame = made->frames;
    made->thread.flow_cursor = made->flow;
    made->thread.flow_limit = made->flow + FLOW - ROOM;
    made->flow_file = -1;
    char path[4096];
    const char *log = getenv("STUB_LOG");
    if (log && level >= 2) {
        snprintf(path, sizeof path, "%s.flow.%d", log, made->number);
        made->flow_file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    }
    if (!made->number)
        pthread_key_create(&key, leave);
    else
        pthread_setspecific(key, made);
    return self = made;
}

static void put_flow(struct thread *thread, const void *record, size_t length) {
    if (thread->flow_cursor > thread->flow_limit)
        flush_flow((struct state *)thread);
    memcpy(thread->flow_cursor, record, length);
    thread->flow_cursor += length;
}

struct thread *__crashpoint_enter(uint32_t site) {
    if (site < 1000 || site >= next_site)
        die("a site out of range");
    struct state *state = mine();
    state->thread.frame++;
    if (state->thread.frame >= state->frames + FRAMES)
        die("the shadow stack is full");
    *state->thread.frame = (struct frame){site, 0};
    if (level >= 2) {
        uint8_t record[5] = {0x15};
        memcpy(record + 1, &site, 4);
        put_flow(&state->thread, record, 5);
    }
    return &state->thread;
}

// Starts a line: kind, thread, site, stack of call sites from the outermost.
static void event(struct thread *thread, const char *kind, uint32_t site) {
    struct state *state = mine();
    if (thread != &state->thread)
        die("the thread of another");
    if (site < 1000 || site >= next_site)
        die("a site out of range");
    char line[4096];
    int length = snprintf(line, sizeof line, "%s %d %u ", kind, state->number, site);
    for (struct frame *f = state->frames + 1; f <= thread->frame && length < 3000; f++)
        length += snprintf(line + length, sizeof line - length, "%s%u",
                           f == state->frames + 1 ? "" : ",", f->site);
    say("%s", line);
}

static void check_persistent(const void *address) {
    if ((uint64_t)address - (uint64_t)PM_BASE >= PM_SIZE)
        die("an address outside of the envelope");
}

static uint64_t offset(const void *address) {
    check_persistent(address);
    return (uint64_t)address - (uint64_t)PM_BASE;
}

void __crashpoint_store(struct thread *thread, uint32_t site, void *address, uint64_t value,
                        uint32_t size_and_kind) {
    uint32_t size = size_and_kind & 0xff, kind = size_and_kind >> 8;
    if (memcmp(address, &value, size))
        die("a store that is not what memory holds");
    if (size < 8 && value >> size * 8)
        die("a value wider than its store");
    event(thread, "store", site);
    say(" %#lx %u %u %#lx\n", offset(address), size, kind, value);
    if (kind == 1)
        thread->pending++;
}

void __crashpoint_range(struct thread *thread, uint32_t site, void *address, uint64_t length,
                        uint32_t kind) {
    event(thread, "range", site);
    say(" %#lx %lu %u ", offset(address), length, kind);
    for (uint64_t i = 0; i < length && i < 256; i++)
        say("%02x", ((uint8_t *)address)[i]);
    say("\n");
    if (kind == 1)
        thread->pending++;
}

void __crashpoint_vector(struct thread *thread, uint32_t site, void *address, const void *value,
                         uint32_t size_and_kind) {
    uint32_t size = size_and_kind & 0xff;
    if (memcmp(address, value, size))
        die("a wide store that is not what memory holds");
    __crashpoint_range(thread, site, address, size, size_and_kind >> 8);
}

#define LOAD_STRING (1ul << 63)
#define LOAD_ESCAPE (LOAD_STRING - 1)

void __crashpoint_load(struct thread *thread, uint32_t site, void *address, uint64_t size) {
    if (size == LOAD_ESCAPE) {
        event(thread, "escape", site);
        say(" %#lx\n", offset(address));
        return;
    }
    if (size & LOAD_STRING) {
        size_t most = size & ~LOAD_STRING, length = strnlen(address, most);
        size = length < most ? length + 1 : most;
    }
    if (!size)
        return;
    event(thread, "load", site);
    say(" %#lx %lu\n", offset(address), size);
}

void __crashpoint_flush(struct thread *thread, uint32_t site, void *address, uint32_t kind) {
    event(thread, "flush", site);
    say(" %#lx %u\n", offset(address), kind);
    thread->pending++;
}

void __crashpoint_fence(struct thread *thread, uint32_t site, uint32_t kind) {
    event(thread, "fence", site);
    say(" %u %u\n", kind, thread->pending);
    thread->pending = 0;
}

void __crashpoint_opaque(struct thread *thread, uint32_t site) {
    event(thread, "opaque", site);
    say("\n");
}

void __crashpoint_call(struct thread *thread, uint32_t site, const uint64_t *arguments,
                       uint32_t count) {
    event(thread, "call", site);
    for (uint32_t i = 0; i < count; i++)
        say(" %#lx", arguments[i]);
    say("\n");
}

void __crashpoint_return(struct thread *thread, uint32_t site, uint64_t value) {
    event(thread, "return", site);
    say(" %#lx\n", value);
}

void __crashpoint_sync(struct thread *thread, uint32_t site, void *object, uint32_t kind) {
    event(thread, "sync", site);
    say(" %u\n", kind);
    (void)object;
}

void __crashpoint_resync(struct thread *thread, struct frame *frame, uint32_t site) {
    struct state *state = mine();
    if (thread != &state->thread || frame <= state->frames || frame > state->frames + FRAMES)
        die("a frame of another");
    thread->frame = frame;
    event(thread, "resync", site);
    say("\n");
    if (level >= 2) {
        uint32_t depth = frame - state->frames;
        uint8_t record[9] = {0x18};
        memcpy(record + 1, &depth, 4);
        memcpy(record + 5, &site, 4);
        put_flow(thread, record, 9);
    }
}

void __crashpoint_flow_full(struct thread *thread) {
    if (thread->flow_cursor <= thread->flow_limit)
        die("the flow stream is not full");
    flush_flow((struct state *)thread);
}
