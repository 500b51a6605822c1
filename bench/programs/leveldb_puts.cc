// Puts N values into a LevelDB in a folder, syncing every 100th: the program of `bench/run watch`.
#include <leveldb/db.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

int main(int count, char **arguments) {
    if (count != 3) return 2;
    leveldb::Options options;
    options.create_if_missing = true;
    leveldb::DB *opened = nullptr;
    leveldb::Status status = leveldb::DB::Open(options, arguments[1], &opened);
    if (!status.ok()) {
        std::fprintf(stderr, "%s\n", status.ToString().c_str());
        return 1;
    }
    std::unique_ptr<leveldb::DB> store(opened);
    const int puts = std::atoi(arguments[2]);
    const std::string value(100, 'v');
    for (int number = 1; number <= puts; number++) {
        char key[32];
        std::snprintf(key, sizeof key, "key%010d", number);
        leveldb::WriteOptions how;
        how.sync = number % 100 == 0;
        if (!store->Put(how, key, value).ok()) return 1;
    }
    return 0;
}
