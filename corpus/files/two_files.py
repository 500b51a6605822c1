"""Two accounts, a file each, and transfers from one to the other.

Correct: what is about to be done is in a journal, durable, before it is begun, and the journal goes
when it is done, durably. Recovery does again what the journal says.
"""

import json
import os

from driver import BUG, Wrong, main, sync_folder, write

OPERATIONS = 3
BEGIN = 100


def replace(name, value):
    write(f"{name}.new", json.dumps(value), sync=True)
    os.replace(f"{name}.new", name)
    #~ BUG_NO_JOURNAL atomicity ahead rename(left) on all
    #~ BUG_NO_JOURNAL atomicity ahead rename(right) on posix
    #~ BUG_NO_JOURNAL atomicity needed rename(right) on all
    #~ BUG_NO_JOURNAL atomicity needed rename(left) on posix
    #~ BUG_NO_JOURNAL ordering ahead rename(left) on posix
    #~ BUG_NO_JOURNAL ordering ahead rename(right) on posix
    #~ BUG_NO_JOURNAL ordering needed rename(left) on posix
    #~ BUG_NO_JOURNAL ordering needed rename(right) on posix
    #~ BUG_JOURNAL_NOT_SYNCED ordering ahead rename(left) on all but ext4-journal
    #~ BUG_JOURNAL_GOES_EARLY ordering needed rename(left) on posix
    #~ BUG_JOURNAL_GOES_EARLY ordering needed rename(right) on posix


def apply(number):
    done = {"left": BEGIN - number, "right": BEGIN + number}
    if BUG != "BUG_NO_JOURNAL":
        write("journal.new", json.dumps(done), sync=BUG != "BUG_JOURNAL_NOT_SYNCED")
        #~ BUG_JOURNAL_NOT_SYNCED ordering needed write(journal.new) on all but ext4-journal
        os.replace("journal.new", "journal")
        sync_folder()
    for name, value in done.items():
        replace(name, value)
    if BUG != "BUG_JOURNAL_GOES_EARLY":
        sync_folder()
    if BUG != "BUG_NO_JOURNAL":
        os.unlink("journal")
        #~ BUG_JOURNAL_GOES_EARLY ordering ahead unlink(journal) on posix
        sync_folder()


def init():
    replace("left", BEGIN)
    replace("right", BEGIN)
    sync_folder()


def load(name):
    try:
        with open(name) as file:
            return json.load(file)
    except ValueError:
        return None


def recover():
    journal = load("journal") if os.path.exists("journal") else None
    if journal is not None:
        for name, value in journal.items():
            replace(name, value)
        sync_folder()
        os.unlink("journal")
    values = load("left"), load("right")
    if None in values or sum(values) != 2 * BEGIN:
        raise Wrong(f"the accounts hold {values[0]} and {values[1]}")
    return BEGIN - values[0]


if __name__ == "__main__":
    main(OPERATIONS, init, apply, recover)
