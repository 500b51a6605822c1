"""The checker of Save.java: python3 save_check.py DIR PRINTED"""

import sys

with open(sys.argv[2]) as file:
    acknowledged = file.read().count("\n")
with open(f"{sys.argv[1]}/document", "rb") as file:
    found = file.read()
texts = [(f"version {version}\n" * (20 + version)).encode() for version in range(4)]
if found not in texts:
    sys.exit(f"{len(found)} bytes that are no version, beginning with {found[:20]}")
if texts.index(found) < acknowledged:
    sys.exit(f"version {acknowledged} was acknowledged, {texts.index(found)} is there")
