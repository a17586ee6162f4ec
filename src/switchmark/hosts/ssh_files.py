"""Files of a remote host are read and written through the shell of its connection; many of them in
one round trip."""

from __future__ import annotations

import re
import subprocess
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial

from switchmark.hosts.base import Host
from switchmark.hosts.remote_shell import RemoteShell
from switchmark.hosts.shell_words import literal, os_error, patterns_of, word

LONG = 48 * 1024
"""Longer inputs go through a session of their own, as they are."""

_UPLOAD_S = 120.0
_SILENT_S = 30.0
_CAT = re.compile(rb"cat: (?:can't open |read error: )?'?(.*?)'?: [^:]+")

_READ = """\
if [ $# -lt 24 ]; then
  for f; do set -- "$@" "$f" "$d/s"; shift; done
  cat -- "$@" 2>"$d/c"
else
  printf '%s\\0'"$d"'/s\\0' "$@" | xargs -0 cat -- 2>"$d/c"
fi
[ ! -s "$d/c" ] || cat "$d/c"
"""
"""It prints some files, and behind each one that holds the mark, whether or not it could be read.
Few are handed to `cat` by the shell itself, which starts one process for all."""


class SshFiles(Host):
    """The files of a host, as `Host` has them."""

    def read(self, path: str) -> bytes:
        shell = self._shell()
        content, error, status = shell.ask(
            f"{{ e=$(cat -- {word(path)} 2>&1 >&3); s=$?; }} 3>&1; {shell.mark}; "
            f"printf '%s' \"$e\"; {shell.mark}; printf '%s' $s; {shell.mark}",
            3,
        )
        if status != b"0":
            raise os_error(error, path)
        return content

    def write(self, path: str, content: bytes) -> None:
        if len(content) > LONG:
            self._upload(path, content)
            return
        self._file_command(f"{literal(content)} | tee -- {word(path)}", path)

    def exists(self, path: str) -> bool:
        shell = self._shell()
        return shell.ask(f"[ ! -e {word(path)} ] || printf y; {shell.mark}", 1)[0] == b"y"

    def remove(self, path: str) -> None:
        # As `unlink` does: a folder is an error.
        self._file_command(f"rm -f -- {word(path)}", path)

    def read_all(self, *patterns: str) -> Mapping[str, bytes]:
        return self.read_later(*patterns)()

    def read_later(self, *patterns: str) -> Callable[[], Mapping[str, bytes]]:
        """Begin to read what matches patterns; return what gives it, before all else is asked."""
        if not patterns:
            return dict
        shell = self._shell()
        shell.post(
            f"set -- {patterns_of(patterns)}; printf '%s\\0' \"$@\"; {shell.mark}\n"
            f"{_READ}{shell.mark}"
        )
        return partial(self._files_read, shell)

    def _files_read(self, shell: RemoteShell) -> Mapping[str, bytes]:
        names = self._answer(shell).decode(errors="surrogateescape").split("\0")[:-1]
        contents = {name: self._answer(shell) for name in names}
        failed = {
            error[1].decode(errors="surrogateescape")
            for line in self._answer(shell).splitlines()
            if (error := _CAT.fullmatch(line))
        }
        return {name: content for name, content in contents.items() if name not in failed}

    def inodes(self, *patterns: str) -> Mapping[str, int]:
        shell = self._shell()
        lines, *_ = shell.ask(
            f"set -- {patterns_of(patterns)}; printf '%s\\0' \"$@\" | "
            f"xargs -0 stat -L -c '%i %n' -- 2>/dev/null; {shell.mark}",
            1,
        )
        numbers = {}
        for line in lines.decode(errors="surrogateescape").splitlines():
            inode, _, path = line.partition(" ")
            numbers[path] = int(inode)
        return numbers

    @abstractmethod
    def _shell(self) -> RemoteShell:
        """Return the shell of this host."""

    @abstractmethod
    def _session(self) -> tuple[str, ...]:
        """Return the command that opens one more session, with a shell."""

    def _answer(self, shell: RemoteShell) -> bytes:
        try:
            return shell.answer(_SILENT_S * self.patience)
        except TimeoutError as error:
            raise shell.lost(f"it did not answer for {_SILENT_S * self.patience:g} s") from error
        except BaseException:
            shell.close()  # what it says next is not what is asked next
            raise

    def _upload(self, path: str, content: bytes) -> None:
        """Write a file by a session of its own, which takes it as it is."""
        self._shell()
        done = subprocess.run(
            (
                *self._session()[:-1],
                f"exec /bin/sh -c {word('LC_ALL=C exec tee -- ' + word(path))}",
            ),
            input=content,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_UPLOAD_S * self.patience,
            check=False,
            start_new_session=True,
        )
        if done.returncode:
            raise os_error(done.stderr, path)

    def _file_command(self, command: str, path: str) -> None:
        shell = self._shell()
        error, status = shell.ask(
            f"e=$({command} 2>&1 >/dev/null); s=$?; printf '%s' \"$e\"; {shell.mark}; "
            f"printf '%s' $s; {shell.mark}",
            2,
        )
        if status != b"0":
            raise os_error(error, path)
