"""These tests check the tools that make the Debian package and the container images: manual pages,
archives. tests/root/test_distribution.py installs and runs the results."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import io
import json
import shutil
import subprocess
import tarfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from switchmark.cli.app import COMMANDS
from switchmark.model.test import AXES

TOOLS = Path(__file__).parents[2] / "tools"


def tool(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(TOOLS))
    return importlib.import_module(name)


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    return dict(tool("manual", monkeypatch).pages())


def test_every_command_has_a_manual_page_with_every_option(pages: dict[str, str]) -> None:
    assert set(pages) == {"switchmark.1", *(f"switchmark-{name}.1" for name in COMMANDS)}
    run = pages["switchmark-run.1"].replace("\\-", "-")
    assert [axis.option for axis in AXES.values() if axis.option not in run] == []
    assert '.SS "Load"' in run
    assert "switchmark run --switch linux-bridge,ovs --search max" in run
    assert ".TP\n\\fB70\\fR\nA bug in switchmark." in pages["switchmark.1"]


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_pages_are_right_for_groff(pages: dict[str, str]) -> None:
    for name, text in pages.items():
        argv = ("groff", "-man", "-ww", "-Tutf8", "-Kutf8")
        shown = subprocess.run(argv, input=text, capture_output=True, text=True, check=True)
        assert shown.stderr == "", name
        assert "User Commands" in shown.stdout


def test_text_stays_as_it_is_in_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    roff = tool("manual", monkeypatch).roff
    assert roff(".hidden\n'quoted' a\\b --x ~") == (
        "\\&.hidden\n\\(aqquoted\\(aq a\\eb \\-\\-x \\(ti"
    )


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    (root / "bin/it").write_text("it\n")
    (root / "proc").mkdir()
    (root / "proc/1").touch()
    path = tmp_path / "it.tar"
    tool("oci", monkeypatch).pack(root, path, "it:1.0")
    return path


def test_an_archive_is_an_oci_layout_and_an_archive_of_docker(archive: Path) -> None:
    with tarfile.open(archive) as packed:
        names = packed.getnames()

        def blob(name: str) -> bytes:
            file = packed.extractfile(name)
            assert file is not None
            return file.read()

        def read(name: str) -> Any:
            return json.loads(blob(name))

        for name in names:
            if name.startswith("blobs/sha256/"):
                assert hashlib.sha256(blob(name)).hexdigest() == Path(name).name
        assert read("oci-layout") == {"imageLayoutVersion": "1.0.0"}
        (manifest,) = read("index.json")["manifests"]
        described = read(f"blobs/{manifest['digest'].replace(':', '/')}")
        (of_docker,) = read("manifest.json")
        assert of_docker["RepoTags"] == ["it:1.0"]
        assert of_docker["Config"].endswith(described["config"]["digest"].removeprefix("sha256:"))
        (layer,) = of_docker["Layers"]
        assert layer.endswith(described["layers"][0]["digest"].removeprefix("sha256:"))
        config = read(of_docker["Config"])
        assert config["config"]["Entrypoint"] == ["switchmark"]

        content = gzip.decompress(blob(layer))
        assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(content).hexdigest()}"]
        with tarfile.open(fileobj=io.BytesIO(content)) as files:
            assert {"./bin/it", "./proc"} <= set(files.getnames())
            assert "./proc/1" not in files.getnames()


@pytest.mark.skipif(not Path("/usr/share/common-licenses").exists(), reason="not a Debian system")
@pytest.mark.parametrize("name", ["Apache-2.0", "GPL-3"])
def test_the_copyright_file_points_to_a_common_licence(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Copies differ in margins and in the last line."""
    monkeypatch.syspath_prepend(str(TOOLS / "deb"))
    copyright_file = importlib.import_module("copyright")
    place = f"/usr/share/common-licenses/{name}"
    terms, _, appendix = Path(place).read_text().partition("END OF TERMS AND CONDITIONS")
    start = terms.index("TERMS AND CONDITIONS" if name == "Apache-2.0" else "GNU GENERAL")
    copy = "\n".join(line.strip() for line in terms[start:].splitlines())
    expected = f"Copyright somebody.\n(the text is in {place})"
    for text in (terms[start:] + "END OF TERMS AND CONDITIONS" + appendix, copy):
        shortened = copyright_file.shortened(f"Copyright somebody.\n{text}")
        assert shortened.startswith(expected)
        assert len(shortened) < len(appendix) + 200
    changed = copy.replace("License", "Licence")
    assert copyright_file.shortened(changed) == changed


def test_equal_roots_give_equal_archives(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = tmp_path / "again.tar"
    tool("oci", monkeypatch).pack(tmp_path / "root", again, "it:1.0")
    assert again.read_bytes() == archive.read_bytes()


def test_an_installation_has_what_switchmark_requires_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: dict[str, Any] = {}
    tool("tree", monkeypatch).required("switchmark", found)
    assert {"switchmark", "click", "pydantic", "pydantic-core", "rich"} <= set(found)
    assert not {"pytest", "mypy", "scapy", "dask", "distributed"} & set(found)
