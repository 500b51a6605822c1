"""Notes that are saved as a whole.

Correct: a new file, synced, renamed over the old one, and the folder synced.
"""

import os

from driver import BUG, Wrong, main, sync_folder, write

OPERATIONS = 3


def text(version):
    return "".join(f"note {line} of version {version}\n" for line in range(20 + 5 * version))


def save(version):
    if BUG == "BUG_TRUNCATED":
        write("notes", text(version), sync=True)
        #~ BUG_TRUNCATED atomicity ahead open(notes) on all
        #~ BUG_TRUNCATED atomicity ahead write(notes) on all
        #~ BUG_TRUNCATED atomicity needed write(notes) on all
        #~ BUG_TRUNCATED ordering ahead open(notes) on all
        #~ BUG_TRUNCATED ordering ahead write(notes) on all
        #~ BUG_TRUNCATED ordering needed write(notes) on all
        return
    write("notes.new", text(version), sync=BUG != "BUG_NOT_SYNCED")
    #~ BUG_NOT_SYNCED ordering needed write(notes.new) on all but ext4-journal
    #~ BUG_NOT_SYNCED durability needed write(notes.new) on all but ext4-journal
    os.replace("notes.new", "notes")
    #~ BUG_NOT_SYNCED ordering ahead rename(notes) on all but ext4-journal
    #~ BUG_FOLDER_NOT_SYNCED durability needed rename(notes) on all
    if BUG != "BUG_FOLDER_NOT_SYNCED":
        sync_folder()


def init():
    save(0)


def recover():
    try:
        with open("notes", "rb") as file:
            found = file.read()
    except FileNotFoundError:
        raise Wrong("the notes are gone")
    for version in range(OPERATIONS + 1):
        if found == text(version).encode():
            return version
    raise Wrong(f"notes of {len(found)} bytes that begin with {found[:20]}")


if __name__ == "__main__":
    main(OPERATIONS, init, save, recover)
