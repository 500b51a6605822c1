"""The checker of Save.java: python3 save_check.py DIR PRINTED"""

import sys

with open(sys.argv[2]) as file:
    acknowledged = file.read().count("\n")
with open(f"{sys.argv[1]}/document", "rb") as file:
    found = file.read()
number = found.partition(b"\n")[0].removeprefix(b"version ")
version = int(number) if number.isdigit() else 0
if found != (f"version {version}\n" * (20 + version % 8)).encode():
    sys.exit(f"{len(found)} bytes that are no version, beginning with {found[:20]}")
if version < acknowledged:
    sys.exit(f"version {acknowledged} was acknowledged, {version} is there")
