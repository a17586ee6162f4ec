"""This module makes the worked example of CONTRIBUTING.md a module."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

REPOSITORY = Path(__file__).parents[1]
CONTRIBUTING = REPOSITORY / "CONTRIBUTING.md"


def source_of_example() -> str:
    """Return the new file of its diff."""
    text = CONTRIBUTING.read_text()
    block = re.search(r"```diff\n--- /dev/null\n\+\+\+ [^\n]*\n@@[^\n]*\n(.*?)```", text, re.DOTALL)
    assert block
    return "".join(line[1:] for line in block[1].splitlines(keepends=True))


def example() -> ModuleType:
    """Run the new file of its diff, and return it as a module."""
    module = ModuleType("example")
    exec(compile(source_of_example(), "CONTRIBUTING.md", "exec"), module.__dict__)
    return module
