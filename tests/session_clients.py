"""The clients of the fakes in `session_programs`: `vppctl`, and the Python that runs the client of
bess's driver. A session starts dozens of them, so this module imports little."""

from __future__ import annotations

import _socket  # `socket` takes longer than Python's own start
import json
import os
import sys
import time


def main(name: str, folder: str) -> None:
    """Be the client of this name, in the folder of a session."""
    if name != "python3":
        ask(name, folder)
    elif sys.argv[1] != "-c":
        run_script(sys.argv[1:])
    else:
        import session_programs

        session_programs.main(name, folder)


def ask(name: str, folder: str) -> None:
    """Ask the fake at the socket; without one, fail as the real client did."""
    asked = _socket.socket(_socket.AF_UNIX)
    try:
        asked.connect(sys.argv[2])
    except OSError as error:
        import session_programs

        session_programs.no_answer(name, folder, error)
    asked.sendall(json.dumps(sys.argv[3:]).encode())
    asked.shutdown(_socket.SHUT_WR)
    while answer := asked.recv(65536):
        os.write(1, answer)


def run_script(argv: list[str]) -> None:
    """Run a script in this process, as Python would. A fake is ready at once, so the script waits
    for a tenth of the time."""
    sleep = time.sleep
    time.sleep = lambda seconds: sleep(float(seconds) / 10)
    sys.argv[:] = argv
    with open(argv[0]) as script:  # noqa: PTH123 - pathlib takes long, too
        exec(compile(script.read(), argv[0], "exec"), {"__name__": "__main__"})
