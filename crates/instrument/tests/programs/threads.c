// Threads, locks, and calls that are watched.
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

void *stub_pm(void);

typedef struct { uint64_t pool, offset; } oid;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t semaphore;
static __thread int mine;
static uint64_t *pm;

int log_range(oid where, uint64_t offset, double size, char c) {
    return (int)(where.offset + offset) + (int)size + c;
}

static uint64_t __attribute__((noinline)) by_memory(long a, long b, long c, long d, long e,
                                                    oid where) {
    return a + b + c + d + e + where.pool + where.offset;
}

static void *work(void *argument) {
    mine = (int)(intptr_t)argument;
    pthread_mutex_lock(&mutex);
    pm[mine] = mine;
    pthread_mutex_unlock(&mutex);
    return (void *)(intptr_t)(mine * 2);
}

int main(void) {
    pm = stub_pm();
    sem_init(&semaphore, 0, 0);
    long total = 0;
    for (int i = 1; i <= 3; i++) {
        pthread_t thread;
        void *result;
        pthread_create(&thread, 0, work, (void *)(intptr_t)i);
        pthread_join(thread, &result);
        total += (intptr_t)result;
    }
    pthread_rwlock_rdlock(&lock);
    pthread_rwlock_unlock(&lock);
    if (pthread_mutex_trylock(&mutex) == 0)
        pthread_mutex_unlock(&mutex);
    sem_post(&semaphore);
    sem_wait(&semaphore);
    oid where = {0x11, 0x22};
    total += log_range(where, 5, 2.5, 'x');
    total += by_memory(1, 2, 3, 4, 5, where);
    int (*pointer)(oid, uint64_t, double, char) = log_range;
    total += pointer(where, 1, 1, 1);
    printf("%ld %d\n", total, mine);
    return 0;
}
