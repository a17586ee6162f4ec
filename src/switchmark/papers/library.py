"""The library of experiments: those of this package, of installed packages, and of one's own.

A folder of experiments has a folder for each paper, with `source.yaml` and a file for each
experiment. An installed package offers a folder by an entry point of the group `switchmark.papers`,
whose object is the path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from re import fullmatch
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from switchmark.errors import UsageError
from switchmark.papers.experiment import SOURCE, SUFFIX, Experiment, Source
from switchmark.papers.overlay import read_overlay
from switchmark.regular_file import read_regular

ENTRY_POINTS = "switchmark.papers"
"""The entry-point group for folders of experiments."""

_OWN = Path(__file__).parent
_DEEPEST = 1000  # of lists and mappings in each other
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"

_Model = TypeVar("_Model", bound=BaseModel)


class Library:
    """The experiments of this package, of installed packages, and of further folders.

    `unusable` maps the entry points that give no folder to the reasons.
    """

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        installed, self.unusable = _installed()
        self._files: dict[str, Path] = {}
        for folder in (_OWN, *installed, *folders):
            for file in _experiments(folder):
                name = _name(file)
                taken = self._files.setdefault(name, file)
                if not taken.samefile(file):
                    raise UsageError(
                        f"there are two experiments named '{name}'\n  {taken}\n  {file}",
                        hint=f"rename the folder {file.parent.name}",
                    )
        self._contents: dict[str, Experiment] = {}
        self._read: dict[str, Experiment] = {}
        self._sources: dict[Path, Source] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all experiments, as accepted by `paper`."""
        return tuple(sorted(self._files))

    def matching(self, pattern: str) -> list[str]:
        """Return the experiments that match a pattern such as `ara-2021/*`. Raise UsageError with
        the closest name if there are none."""
        names = self.names
        meant = [name for name in names if fnmatchcase(name, pattern)]
        if whole_paper := [name for name in names if name.startswith(f"{pattern}/")]:
            listed = ", ".join(whole_paper)
            raise UsageError(
                f"'{pattern}' is a paper of {len(whole_paper)} experiments\n  known: {listed}",
                hint=f"switchmark paper '{pattern}/*', or one of them: {whole_paper[0]}",
            )
        if not meant:
            near = get_close_matches(pattern, names, n=1, cutoff=0.3)
            lacking = "".join(f"\n  {name}: {why}" for name, why in self.unusable.items())
            raise UsageError(
                f"there is no experiment named '{pattern}'\n  known: {', '.join(names)}{lacking}",
                hint=f"switchmark paper {near[0]}" if near else "switchmark list papers",
            )
        return meant

    def read(self, name: str) -> Experiment:
        """Return the experiment of that name. Raise UsageError with the closest name if there is
        none, or with the mistakes in its file."""
        if name not in self._read:
            self._read[name] = self._with_paper(self._parsed(name))
        return self._read[name]

    def _with_paper(self, experiment: Experiment) -> Experiment:
        """Return an experiment with the description of its paper, the owner of its runs, and the
        values of its CSV files."""
        file, owner = self._files[experiment.name], None
        if shared := experiment.same_runs_as:
            if further := self._parsed(shared).same_runs_as:
                raise UsageError(
                    f"{file} shares the runs of {shared}, which has none",
                    hint=f"same-runs-as: {further}",
                )
            owner = self.read(shared)
        own = experiment.with_own(self._source(file.parent), owner, file)
        rows = [row for path in own.data for row in read_overlay(file.parent / path, own.axes)]
        return own.with_rows(rows) if rows else own

    def _parsed(self, name: str) -> Experiment:
        if name not in self._files:
            self.matching(name)
        if name not in self._contents:
            file = self._files[name]
            content = _content(file)
            if not isinstance(content, Mapping):
                raise UsageError(f"{file} has no members of an experiment")
            self._contents[name] = _valid(Experiment, {"name": name, **content}, file)
        return self._contents[name]

    def _source(self, folder: Path) -> Source:
        if folder not in self._sources:
            file = folder / SOURCE
            self._sources[folder] = _valid(Source, _content(file), file)
        return self._sources[folder]


@cache
def library(*folders: Path) -> Library:
    """Return the library of this package, of installed packages, and of further folders."""
    return Library(folders)


def names() -> tuple[str, ...]:
    """Return the names of all installed experiments."""
    return library().names


def read(name: str) -> Experiment:
    """Return the installed experiment of that name, as `Library.read`."""
    return library().read(name)


def located(pattern: str, folders: Sequence[Path] = ()) -> tuple[Library, list[str]]:
    """Return the library and the experiments that a name, a pattern or a path means.

    A path is that of an experiment's file (with or without its suffix), of the folder of a paper,
    or of a folder of such folders. UsageError if it is none of them, or if nothing matches.
    """
    path = Path(pattern).expanduser()
    file = path if path.suffix == SUFFIX else Path(f"{path}{SUFFIX}")
    if not (pattern.startswith((".", "/", "~")) or path.exists() or file.is_file()):
        found = library(*folders)
        return found, found.matching(pattern)
    if file.is_file():
        found = library(*folders, file.resolve().parent.parent)
        return found, [_name(file.resolve())]
    if (path / SOURCE).is_file():
        path = path.resolve()
        chosen = [_name(file) for file in _experiments(path.parent) if file.parent == path]
        return library(*folders, path.parent), chosen
    if path.is_dir() and (chosen := [_name(file) for file in _experiments(path)]):
        return library(*folders, path.resolve()), chosen
    raise UsageError(
        f"there is no experiment at {pattern}",
        hint="a folder of experiments has PAPER/source.yaml and PAPER/EXPERIMENT.yaml",
    )


def folders_of(text: Sequence[Path]) -> tuple[Path, ...]:
    """Return folders of experiments; UsageError if one of them is no such folder."""
    for folder in text:
        if not folder.is_dir() or not _experiments(folder):
            raise UsageError(
                f"{folder} is no folder of experiments",
                hint="it has a folder for each paper, with source.yaml and a file for each "
                "experiment: docs/guide/papers.md",
            )
    return tuple(folder.resolve() for folder in text)


def _installed() -> tuple[list[Path], dict[str, str]]:
    """Return the folders of installed packages, and why others are unusable, by entry point."""
    folders, unusable = [], {}
    for point in entry_points(group=ENTRY_POINTS):
        try:
            folder = Path(point.load())
        except (Exception, SystemExit) as error:  # noqa: BLE001 (others stay usable)
            unusable[point.name] = f"the plug-in {point.value} gives no folder: {error}"
            continue
        if folder.is_dir():
            folders.append(folder)
        else:
            unusable[point.name] = f"the plug-in {point.value}: {folder} is no folder"
    return folders, unusable


def _experiments(folder: Path) -> list[Path]:
    papers = [file.parent for file in folder.glob(f"*/{SOURCE}")]
    files = (file for paper in papers for file in paper.glob(f"*{SUFFIX}"))
    return sorted(file for file in files if file.name != SOURCE)


def _name(file: Path) -> str:
    for part in (file.parent.name, file.stem):
        if not fullmatch(_NAME, part):
            raise UsageError(
                f"{file}: '{part}' is no name of an experiment",
                hint="letters, digits, '.', '_' and '-'",
            )
    return f"{file.parent.name}/{file.stem}"


def _paper(name: str) -> str:
    return name.partition("/")[0]


def _valid(model: type[_Model], content: Any, file: Path) -> _Model:
    """Return a validated model; UsageError with all mistakes."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        mistakes = [
            f"{'.'.join(map(str, mistake['loc'])) or model.__name__.lower()}: {mistake['msg']}"
            for mistake in error.errors()
        ]
        raise UsageError(
            "\n  ".join([f"{file} is no {model.__name__.lower()}", *mistakes]),
            hint="docs/guide/papers.md: your own experiment",
        ) from None


def content_of(text: bytes | str) -> Any:
    """Return the content of a YAML file; raise ValueError if it has none. PyYAML's loader in C, if
    present, takes a tenth of the time, but nesting without end kills the process."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        if len(text) > _DEEPEST and any(depth > _DEEPEST for depth in _depths(text, loader)):
            raise ValueError(f"it has more than {_DEEPEST} lists and mappings in each other")
        return yaml.load(text, loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _depths(text: bytes | str, loader: Any) -> Iterator[int]:
    depth = 0
    for event in yaml.parse(text, loader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        yield depth


def _content(file: Path) -> Any:
    try:
        return content_of(read_regular(file))
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from None
