// Four threads: each with a file of its own, all with one log.
#include "common.h"

static int shared_log;

static void *worker(void *number) {
    char name[32], line[32];
    snprintf(name, sizeof name, "file%ld", (long)number);
    int file = check(open(name, O_WRONLY | O_CREAT, 0644));
    for (int round = 0; round < 25; round++) {
        snprintf(line, sizeof line, "thread %ld round %d\n", (long)number, round);
        put(file, line);
        put(shared_log, line);
        check(fdatasync(file));
    }
    check(close(file));
    return NULL;
}

int main(int count, char **arguments) {
    check(chdir(arguments[1]));
    // Without O_APPEND: the threads share the position.
    shared_log = check(open("log", O_WRONLY | O_CREAT, 0644));
    pthread_t threads[4];
    for (long number = 0; number < 4; number++)
        pthread_create(&threads[number], NULL, worker, (void *)number);
    for (int number = 0; number < 4; number++) pthread_join(threads[number], NULL);
    return count - 2;
}
