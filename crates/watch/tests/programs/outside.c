// Things come into the folder and leave it.
#include "common.h"

int main(int count, char **arguments) {
    check(chdir(arguments[1]));
    make_file(0644, "../incoming", "from outside");
    check(rename("../incoming", "here"));
    check(mkdir("../tree", 0755));
    make_file(0644, "../tree/leaf", "a leaf");
    check(symlink("leaf", "../tree/to-leaf"));
    check(rename("../tree", "tree"));
    make_file(0644, "tree/more", "more");
    make_file(0644, "../linked", "linked");
    check(link("../linked", "second-name"));
    make_file(0644, "leaving", "leaving");
    check(rename("leaving", "../left"));
    make_file(0644, "../left", "nobody cares");
    check(rename("tree/leaf", "../leaf"));
    make_file(0644, "victim", "victim");
    make_file(0644, "../winner", "winner");
    check(rename("../winner", "victim"));
    return count - 2;
}
