"""The main of the Python programs here; see driver.h, which is the same for C.

python3 PROGRAM init DIR [BUG_NAME] | run DIR [BUG_NAME] | verify DIR PRINTED [BUG_NAME]
"""

import os
import sys

BUG = next((word for word in sys.argv if word.startswith("BUG_")), None)


class Wrong(Exception):
    """A crash left what is no state between two operations."""


def write(name, text, sync):
    """A new file, or an old one from its beginning."""
    with open(name, "w") as file:
        file.write(text)
        file.flush()
        if sync:
            os.fsync(file.fileno())


def sync_folder():
    folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(folder)
    os.close(folder)


def verify(folder, printed, recover):
    with open(printed) as file:
        acknowledged = file.read().count("\n")
    os.chdir(folder)
    found = recover()
    if found < acknowledged:
        raise Wrong(f"{acknowledged} operations were acknowledged, {found} are left")
    if found > acknowledged + 1:
        raise Wrong(f"{found} operations, of which {acknowledged + 1} had begun")


def main(operations, init, apply, recover):
    """`apply` gets numbers from 1; `recover` says how many operations there are after a crash."""
    match sys.argv[1:]:
        case ["init", folder, *_]:
            os.chdir(folder)
            init()
        case ["run", folder, *_]:
            os.chdir(folder)
            for number in range(1, operations + 1):
                apply(number)
                print(f"done {number}", flush=True)
        case ["verify", folder, printed, *_]:
            try:
                verify(folder, printed, recover)
            except Wrong as reason:
                print(reason)
                sys.exit(1)
        case _:
            sys.exit(__doc__)
