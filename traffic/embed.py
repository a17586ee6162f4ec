"""Writes a file as a C array: embed.py INPUT OUTPUT NAME."""

import sys
from pathlib import Path

source, target, name = sys.argv[1:]
data = ",".join(str(byte) for byte in Path(source).read_bytes())
Path(target).write_text(f"static const unsigned char {name}[] = {{{data}}};\n")
