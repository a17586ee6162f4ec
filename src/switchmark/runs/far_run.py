"""A run has its folder and its journal on a host that is reached by ssh too, and a watcher that
undoes what is left there when the connection ends, however it does.

The journal is the same as here, so that `switchmark clean` on that host can read it; beside it each
undo lies as a shell's text, as the watcher has nothing but a shell.
"""

from __future__ import annotations

from contextlib import suppress

from switchmark.errors import SetupFailed, SwitchmarkError, Unavailable
from switchmark.hosts.base import Host, Process
from switchmark.hosts.far_undo import UNDO
from switchmark.hosts.shell_words import ending, literal, quoted, word
from switchmark.model.plan import OWN_DIR, PORTS_DIR
from switchmark.runs.journal import (
    Begin,
    Command,
    Done,
    Intend,
    Lease,
    Restore,
    Started,
    Stop,
    Undo,
)

_WATCH_S = 20.0

_WATCH = f"""\
f=$1 r=$2 d=$1 i=0
umask 077
[ ! -s "$d/hold" ] || kill "$(cat "$d/hold")" 2>/dev/null
while [ -e "$d/hold" ] && [ $i -lt 100 ]; do sleep 0.1; i=$((i+1)); done
# Where this host has the folder of who started the run, there are two journals.
[ ! -e "$f/journal" ] || d=$f/$3
mkdir -p "$d/undo" "$f/{PORTS_DIR}" "$f/{OWN_DIR}" && exec 9>>"$d/journal" || exit 1
! command -v flock >/dev/null || flock 9
b=$(cat /proc/sys/kernel/random/boot_id)
exec 3<&0 </dev/null
cat <&3 >/dev/null 2>&1 3<&- 9>&- &
exec 3<&-
echo $$ >"$d/watcher" && echo $! >"$d/hold" && echo "up $b $d" || exit 1
wait $!
[ -e "$d/undo" ] && [ ! -e "$d/kept" ] || exit 0
set -- "$d" "$r"
{UNDO}"""
"""It says that it is there, waits for the end of its input, and undoes what is left then."""


class FarRun:
    """A run `run`, whose folder is `folder` here and there, has something on `host`."""

    def __init__(self, host: Host, run: str, folder: str) -> None:
        self._host = host
        self._run = run
        self._folder = folder
        self._there = ""
        self._watcher: Process | None = None
        self._connection = -1
        self._stops: dict[int, Stop] = {}
        self._noted: set[int] = set()

    def hold(self) -> None:
        """Make the run's folder there, with a watcher, unless it is there over this connection."""
        if self._watcher is not None and self._connection == self._host.connected:
            if self._host.lives():
                return
        argv = ("sh", "-c", _WATCH, "sh", self._folder, self._run, f"far-{self._host.name}")
        log = f"{self._folder}/watcher-{self._host.name}.stderr"
        self._require_root()
        watcher = self._host.spawn(argv, stderr_path=log)
        up, _, rest = (watcher.receive(_WATCH_S) or "").partition(" ")
        boot, _, self._there = rest.partition(" ")
        if up != "up":
            words = watcher.last_words(1)
            watcher.stop(9, 0)
            raise SetupFailed(
                f"host {self._host.name} has no room for a run in {self._folder}\n  {words}",
                hint=f"on {self._host.name}: df -h {self._folder.rpartition('/')[0]}",
            )
        self._watcher, self._connection = watcher, self._host.connected
        begin = Begin(run=self._run, boot=boot, pid=watcher.pid, start=watcher.started)
        self._append(begin.model_dump_json())

    def note(self, entry: object) -> None:
        """Note a line of the run's journal there, if it is about that host."""
        match entry:
            case Intend() if entry.undo.host == self._host.name:
                self._noted.add(entry.number)
                if isinstance(entry.undo, Stop):
                    self._stops[entry.number] = entry.undo
                if isinstance(entry.undo, Lease):
                    self._keep_value(entry.number, entry.undo)
                else:
                    self._keep(entry.number, _script(entry.undo))
                there = entry.undo.model_copy(update={"host": "local"})
                self._append(entry.model_copy(update={"undo": there}).model_dump_json())
            case Started() if entry.number in self._stops:
                stop = self._stops[entry.number]
                self._keep(entry.number, ending(entry.pid, entry.start, stop.number, stop.grace_s))
                self._append(entry.model_dump_json())
            case Done() if entry.number in self._noted:
                self._noted.discard(entry.number)
                with suppress(SwitchmarkError):  # it is noted here; there it is idempotent
                    self._host.post(f"printf '' >{word(self._there)}/undo/{entry.number}")
                    self._append(entry.model_dump_json())

    def end(self) -> None:
        """End the run there: what was made for it goes."""
        if self._watcher is not None and self._host.lives():
            with suppress(SwitchmarkError):
                self._host.post(f"rm -rf {word(self._there)}")
                self._watcher.stop(15, _WATCH_S)
        self._watcher = None

    def keep(self) -> None:
        """Keep what is there, for `clean`."""
        if self._watcher is not None and self._host.lives():
            with suppress(SwitchmarkError):
                self._host.post(f"printf '' >{word(self._there)}/kept")
                self._watcher.stop(15, _WATCH_S)
        self._watcher = None

    def _require_root(self) -> None:
        done = self._host.run(("id", "-u"))
        if done.stdout.strip() != b"0":
            raise Unavailable(
                f"a run on host {self._host.name} needs root there, and this is another user",
                hint=f'address = "root@..." in [hosts.{self._host.name}] of the host file',
            )

    def _append(self, line: str) -> None:
        printed = literal(f"{line}\n".encode())
        self._host.post(f"{printed} >>{word(self._there)}/journal")

    def _keep_value(self, number: int, lease: Lease) -> None:
        """Let the value that a file of the kernel has now be written back there, or a count be
        lowered by what is added to it. That is done once, and for what was added before a death."""
        value, path = f"{word(self._there)}/value-{number}", word(lease.path)
        self._host.post(f"cat -- {path} >{value} 2>/dev/null")
        if lease.added is None:
            self._keep(number, f"tee -- {path} <{value}\n")
            return
        self._keep(
            number,
            f"n=$(cat -- {path}) a=$((n - $(cat {value})))\n"
            f"[ $a -le {lease.added} ] || a={lease.added}\n"
            f'printf "" >"$0"\n'
            f"[ $a -le 0 ] || echo $((n - a)) >{path}\n",
        )

    def _keep(self, number: int, script: str) -> None:
        self._host.post(f"{literal(script.encode())} >{word(self._there)}/undo/{number}")


def _script(undo: Undo) -> str:
    """Return shell text that carries an undo out on the host that it is about."""
    match undo:
        case Command():
            feed = "</dev/null" if undo.stdin is None else ""
            given = "" if undo.stdin is None else f"{literal(undo.stdin)} | "
            return f"{given}{quoted(undo.argv)} {feed}\n"
        case Restore(content=None):
            return f"rm -f -- {word(undo.path)}\n"
        case Restore(content=bytes(content)):
            return f"{literal(content)} | tee -- {word(undo.path)}\n"
        case _:
            return ""
