// LevelDB, linked as Debian ships it.
//
//     PROGRAM init DIR | run DIR | verify DIR PRINTED                    synced puts
//     PROGRAM init-switch DIR | run-switch DIR | verify-switch DIR PRINTED
//
// In the second workload puts are not synced, until the log is switched and one put in the new log
// is. The manual recommends just that for bulk loads, every so many writes synced as a marker of
// where to go on after a crash: so what was put before a synced put must be there if that one is.
#include <leveldb/db.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

namespace {

// Three are enough for what is known; CRASHPOINT_OPERATIONS asks for more.
const int kOperations = [] {
    const char *wanted = getenv("CRASHPOINT_OPERATIONS");
    return wanted ? std::max(atoi(wanted), 3) : 3;
}();

[[noreturn]] void Wrong(const std::string &reason) {
    printf("%s\n", reason.c_str());
    exit(1);
}

std::unique_ptr<leveldb::DB> Open(const std::string &folder, bool create) {
    leveldb::Options options;
    options.create_if_missing = create;
    options.paranoid_checks = false;
    options.compression = leveldb::kNoCompression;
    // The least that is allowed: a few puts fill a log.
    options.write_buffer_size = 64 * 1024;
    leveldb::DB *db = nullptr;
    leveldb::Status status = leveldb::DB::Open(options, folder + "/db", &db);
    if (!status.ok()) Wrong("the store does not open: " + status.ToString());
    return std::unique_ptr<leveldb::DB>(db);
}

void Put(leveldb::DB *db, int number, size_t padding, bool sync) {
    leveldb::WriteOptions options;
    options.sync = sync;
    std::string value = "value " + std::to_string(number) + std::string(padding, '.');
    leveldb::Status status = db->Put(options, "key" + std::to_string(number), value);
    if (!status.ok()) Wrong("put: " + status.ToString());
}

bool IsThere(leveldb::DB *db, int number) {
    std::string value;
    leveldb::Status status = db->Get(leveldb::ReadOptions(), "key" + std::to_string(number), &value);
    if (status.IsNotFound()) return false;
    if (!status.ok()) Wrong("get: " + status.ToString());
    if (value.rfind("value " + std::to_string(number), 0) != 0) Wrong("a wrong value: " + value);
    return true;
}

int Lines(const std::string &path) {
    std::ifstream file(path);
    std::string line;
    int lines = 0;
    while (std::getline(file, line)) lines++;
    return lines;
}

void Done(int number) {
    printf("put %d\n", number);
    fflush(stdout);
}

void Run(leveldb::DB *db) {
    for (int number = 1; number <= kOperations; number++) {
        Put(db, number, 0, true);
        Done(number);
    }
}

// Three puts of which two fill the first log, so that the third goes to another one.
void RunSwitch(leveldb::DB *db) {
    Put(db, 1, 40 * 1024, false);
    Put(db, 2, 40 * 1024, false);
    Put(db, 3, 0, true);
    for (int number = 1; number <= 3; number++) Done(number);
    for (int number = 4; number <= kOperations; number++) {
        Put(db, number, 0, true);
        Done(number);
    }
}

void Verify(leveldb::DB *db, int acknowledged) {
    bool gap = false;
    for (int number = 1; number <= kOperations; number++) {
        bool is_there = IsThere(db, number);
        if (number <= acknowledged && !is_there) Wrong("put " + std::to_string(number) + " is lost");
        if (is_there && gap) Wrong("put " + std::to_string(number) + " is there, one before is not");
        gap = gap || !is_there;
    }
}

}  // namespace

int main(int count, char **arguments) {
    std::string what = count > 2 ? arguments[1] : "";
    std::string folder = count > 2 ? arguments[2] : "";
    if (what == "init" || what == "init-switch") {
        Open(folder, true);
    } else if (what == "run") {
        Run(Open(folder, true).get());
    } else if (what == "run-switch") {
        RunSwitch(Open(folder, false).get());
    } else if (what == "verify" && count > 3) {
        Verify(Open(folder, true).get(), Lines(arguments[3]));
    } else if (what == "verify-switch" && count > 3) {
        Verify(Open(folder, false).get(), Lines(arguments[3]));
    } else {
        return 3;
    }
}
