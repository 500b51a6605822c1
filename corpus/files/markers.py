"""Jobs: an empty marker claims a job, then a file holds its result.

Correct: the name of the marker is durable before the result is begun.
"""

import os

from driver import BUG, Wrong, main, sync_folder, write

OPERATIONS = 3


def apply(number):
    os.close(os.open(f"{number}.claim", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    #~ BUG_CLAIM_NOT_SYNCED ordering needed open(*.claim) on posix btrfs
    if BUG != "BUG_CLAIM_NOT_SYNCED":
        sync_folder()
    write(f"{number}.result", f"result of job {number}\n", sync=True)
    #~ BUG_CLAIM_NOT_SYNCED ordering ahead open(*.result) on posix btrfs
    #~ BUG_CLAIM_NOT_SYNCED ordering ahead write(*.result) on posix btrfs
    #~ BUG_NAME_NOT_SYNCED durability needed open(*.result) on posix
    if BUG != "BUG_NAME_NOT_SYNCED":
        sync_folder()


def recover():
    found = 0
    while os.path.exists(f"{found + 1}.result"):
        with open(f"{found + 1}.result", "rb") as file:
            result = file.read()
        if not os.path.exists(f"{found + 1}.claim"):
            raise Wrong(f"job {found + 1} has a result and nobody claimed it")
        if result != f"result of job {found + 1}\n".encode():
            # The claim says that the job is not over; it is done again.
            break
        found += 1
    return found


if __name__ == "__main__":
    main(OPERATIONS, lambda: None, apply, recover)
