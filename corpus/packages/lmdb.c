// LMDB with its defaults, a transaction for each operation.
//
//     PROGRAM init DIR | run DIR | verify DIR PRINTED
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PER_OPERATION = 20 };

static MDB_env *env;

// Three are enough for what is known; CRASHPOINT_OPERATIONS asks for more.
static int operations(void) {
    const char *wanted = getenv("CRASHPOINT_OPERATIONS");
    return wanted ? atoi(wanted) : 3;
}

static void must(int code, const char *what) {
    if (code != MDB_SUCCESS) {
        printf("%s: %s\n", what, mdb_strerror(code));
        exit(1);
    }
}
#define must(call) must((call), #call)

static void open_store(const char *folder) {
    must(mdb_env_create(&env));
    must(mdb_env_set_mapsize(env, (size_t)64 << 20));
    must(mdb_env_open(env, folder, 0, 0644));
}

static void put(int number) {
    MDB_txn *txn;
    MDB_dbi dbi;
    must(mdb_txn_begin(env, NULL, 0, &txn));
    must(mdb_dbi_open(txn, NULL, 0, &dbi));
    for (int i = 0; i < PER_OPERATION; i++) {
        char name[32], text[64];
        snprintf(name, sizeof name, "%d.%d", number, i);
        snprintf(text, sizeof text, "value %d of operation %d", i, number);
        MDB_val key = {strlen(name), name}, value = {strlen(text), text};
        must(mdb_put(txn, dbi, &key, &value, 0));
    }
    must(mdb_txn_commit(txn));
}

// All of an operation, or nothing.
static int is_there(int number) {
    MDB_txn *txn;
    MDB_dbi dbi;
    must(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
    must(mdb_dbi_open(txn, NULL, 0, &dbi));
    int found = 0;
    for (int i = 0; i < PER_OPERATION; i++) {
        char name[32], text[64];
        snprintf(name, sizeof name, "%d.%d", number, i);
        snprintf(text, sizeof text, "value %d of operation %d", i, number);
        MDB_val key = {strlen(name), name}, value;
        int code = mdb_get(txn, dbi, &key, &value);
        if (code == MDB_NOTFOUND) continue;
        must(code);
        if (value.mv_size != strlen(text) || memcmp(value.mv_data, text, value.mv_size)) {
            printf("%s has a wrong value\n", name);
            exit(1);
        }
        found++;
    }
    mdb_txn_abort(txn);
    if (found != 0 && found != PER_OPERATION) {
        printf("%d of the %d values of operation %d\n", found, PER_OPERATION, number);
        exit(1);
    }
    return found != 0;
}

static int lines_of(const char *path) {
    FILE *file = fopen(path, "r");
    if (!file) exit(3);
    int lines = 0, c;
    while ((c = fgetc(file)) != EOF) lines += c == '\n';
    fclose(file);
    return lines;
}

int main(int count, char **arguments) {
    if (count < 3) return 3;
    open_store(arguments[2]);
    if (!strcmp(arguments[1], "init")) {
        put(0);
    } else if (!strcmp(arguments[1], "run")) {
        for (int number = 1; number <= operations(); number++) {
            put(number);
            printf("committed %d\n", number);
            fflush(stdout);
        }
    } else {
        int acknowledged = lines_of(arguments[3]);
        for (int number = 0; number <= operations(); number++) {
            int expected = number <= acknowledged, allowed = number <= acknowledged + 1;
            int found = is_there(number);
            if (found ? !allowed : expected) {
                printf("operation %d is %s\n", number, found ? "there too early" : "lost");
                return 1;
            }
        }
    }
    mdb_env_close(env);
    return 0;
}
