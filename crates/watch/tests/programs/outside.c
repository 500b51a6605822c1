// Things come into the folder and leave it.
#include "common.h"

static void make(const char *name, const char *text) {
    int file = check(open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644));
    put(file, text);
    check(close(file));
}

int main(int count, char **arguments) {
    check(chdir(arguments[1]));
    make("../incoming", "from outside");
    check(rename("../incoming", "here"));
    check(mkdir("../tree", 0755));
    make("../tree/leaf", "a leaf");
    check(symlink("leaf", "../tree/to-leaf"));
    check(rename("../tree", "tree"));
    make("tree/more", "more");
    make("../linked", "linked");
    check(link("../linked", "second-name"));
    make("leaving", "leaving");
    check(rename("leaving", "../left"));
    make("../left", "nobody cares");
    check(rename("tree/leaf", "../leaf"));
    make("victim", "victim");
    make("../winner", "winner");
    check(rename("../winner", "victim"));
    return count - 2;
}
