// Threads that store, each to lines of its own and, under a lock, to one that they share.
#include "hooks.h"
#include <threads.h>

#define THREADS 4
static uint64_t *p;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void shared(struct thread *t) {
    pthread_mutex_lock(&mutex);
    if (t) {
        __crashpoint_sync(t, SITE(20), &mutex, 0);
    }
    store8(t, 21, p, *p + 1);
    flush(t, 22, p);
    fence(t, 23);
    if (t) {
        __crashpoint_sync(t, SITE(24), &mutex, 1);
    }
    pthread_mutex_unlock(&mutex);
}

static void *work(void *argument) {
    uint64_t number = (uint64_t)argument;
    struct thread *t = enter(10);
    for (int i = 0; i < 2000; i++) {
        // Neighbours in one cache line belong to different threads.
        uint64_t *own = p + 64 + number + THREADS * (i % 100);
        store8(t, 11, own, i);
        flush(t, 12, own);
        fence(t, 13);
        if (i % 10 == 0) {
            calling(t, 14);
            shared(t);
        }
    }
    leave(t);
    return argument;
}

static int c11(void *argument) {
    struct thread *t = enter(30);
    store8(t, 31, p + 1, (uint64_t)argument);
    leave(t);
    return -7;
}

static void *leaver(void *argument) {
    struct thread *t = enter(40);
    store8(t, 41, p + 2, 1);
    leave(t);
    pthread_exit(argument);
}

static void cleaned_up(void *argument) {
    struct thread *t = enter(50);
    store8(t, 51, p + 3, 1);
    leave(t);
}

static void *cancelled(void *argument) {
    pthread_cleanup_push(cleaned_up, NULL);
    for (;;) {
        pause();
    }
    pthread_cleanup_pop(0);
    return NULL;
}

int main(int argc, char **argv) {
    p = pool(argv[1]);
    struct thread *t = enter(1);
    pthread_t threads[THREADS];
    for (uint64_t i = 0; i < THREADS; i++) {
        calling(t, 2);
        if (pthread_create(threads + i, NULL, work, (void *)i)) {
            return 1;
        }
    }
    for (uint64_t i = 0; i < THREADS; i++) {
        void *result;
        if (pthread_join(threads[i], &result) || result != (void *)i) {
            return 2;
        }
        if (t) {
            __crashpoint_sync(t, SITE(3), (void *)threads[i], 4);
        }
    }
    thrd_t thread;
    int result;
    if (thrd_create(&thread, c11, (void *)3) != thrd_success ||
        thrd_join(thread, &result) != thrd_success || result != -7) {
        return 3;
    }
    void *left;
    if (pthread_create(threads, NULL, leaver, p) || pthread_join(threads[0], &left) || left != p) {
        return 4;
    }
    if (pthread_create(threads, NULL, cancelled, NULL) || pthread_cancel(threads[0]) ||
        pthread_join(threads[0], &left) || left != PTHREAD_CANCELED) {
        return 5;
    }
    printf("%lu\n", *p);
    leave(t);
    return 0;
}
