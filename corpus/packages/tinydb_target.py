"""tinydb with its default storage.

python3 PROGRAM PACKAGES init DIR | run DIR | verify DIR PRINTED
"""

import os
import sys

sys.path.insert(0, sys.argv[1])
from tinydb import TinyDB

# Five are enough for what is known; CRASHPOINT_OPERATIONS asks for more.
OPERATIONS = int(os.environ.get("CRASHPOINT_OPERATIONS", 5))


def open_store(folder):
    return TinyDB(f"{folder}/store.json")


def main(what, folder, printed=None):
    if what == "init":
        open_store(folder).insert({"number": 0, "text": "x" * 200})
    elif what == "run":
        store = open_store(folder)
        for number in range(1, OPERATIONS + 1):
            # What gets shorter is truncated after it was written.
            store.update({"number": number, "text": "x" * (200 - 40 * (number % 5))})
            print(f"updated {number}", flush=True)
    else:
        with open(printed) as file:
            acknowledged = file.read().count("\n")
        try:
            rows = open_store(folder).all()
        except ValueError as error:
            sys.exit(f"the store is no JSON: {error}")
        if len(rows) != 1:
            sys.exit(f"{len(rows)} rows")
        number = rows[0]["number"]
        if number < acknowledged:
            sys.exit(f"{acknowledged} updates were acknowledged, {number} is there")


main(*sys.argv[2:])
