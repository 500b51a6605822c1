// SQLite, a transaction for each operation.
//
//     PROGRAM init DIR MODE | run DIR MODE | verify DIR PRINTED MODE
//
// MODE is `wal` or `delete`, with synchronous = FULL; `strict`, which is `delete` too, but the last
// commit must be there; or `extra`, which is the same with synchronous = EXTRA. By its manual, FULL
// keeps a rollback journal consistent, and only EXTRA syncs the folder after the journal is deleted,
// without which the last commit may be rolled back.
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sqlite3 *db;

// Three are enough for what is known; CRASHPOINT_OPERATIONS asks for more.
static int operations(void) {
    const char *wanted = getenv("CRASHPOINT_OPERATIONS");
    return wanted ? atoi(wanted) : 3;
}

static int first_column(void *into, int columns, char **values, char **names) {
    (void)names;
    if (columns > 0 && values[0]) snprintf(into, 100, "%s", values[0]);
    return 0;
}

// The first column of the last row.
static const char *sql(const char *statement) {
    static char result[100];
    char *error = NULL;
    result[0] = 0;
    if (sqlite3_exec(db, statement, first_column, result, &error) != SQLITE_OK) {
        printf("%s: %s\n", statement, error);
        exit(1);
    }
    return result;
}

static void open_store(const char *folder, const char *mode) {
    char text[4096];
    snprintf(text, sizeof text, "%s/store.db", folder);
    if (sqlite3_open(text, &db) != SQLITE_OK) {
        printf("open: %s\n", sqlite3_errmsg(db));
        exit(1);
    }
    sql(!strcmp(mode, "wal") ? "PRAGMA journal_mode = wal" : "PRAGMA journal_mode = delete");
    sql(!strcmp(mode, "extra") ? "PRAGMA synchronous = EXTRA" : "PRAGMA synchronous = FULL");
}

// Two rows that always agree, far from each other in the file.
static void transfer(int number) {
    char text[200];
    sql("BEGIN");
    snprintf(text, sizeof text, "UPDATE t SET value = %d WHERE id = 1", number);
    sql(text);
    snprintf(text, sizeof text, "UPDATE t SET value = %d WHERE id = 40", number);
    sql(text);
    sql("COMMIT");
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
    const char *what = arguments[1];
    const char *mode = arguments[count - 1];
    open_store(arguments[2], mode);
    if (!strcmp(what, "init")) {
        sql("CREATE TABLE t (id INTEGER PRIMARY KEY, value INTEGER, text TEXT)");
        sql("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40) "
            "INSERT INTO t SELECT i, 0, hex(zeroblob(100)) FROM n");
    } else if (!strcmp(what, "run")) {
        for (int number = 1; number <= operations(); number++) {
            transfer(number);
            printf("committed %d\n", number);
            fflush(stdout);
        }
    } else {
        int acknowledged = lines_of(arguments[3]);
        int least = acknowledged - !strcmp(mode, "delete");
        if (strcmp(sql("PRAGMA integrity_check"), "ok")) {
            printf("integrity_check: %s\n", sql("PRAGMA integrity_check"));
            return 1;
        }
        int first = atoi(sql("SELECT value FROM t WHERE id = 1"));
        int second = atoi(sql("SELECT value FROM t WHERE id = 40"));
        if (first != second || first < least || first > acknowledged + 1) {
            printf("%d acknowledged; the rows say %d and %d\n", acknowledged, first, second);
            return 1;
        }
    }
    sqlite3_close(db);
    return 0;
}
