"""Packs a root file system as a container image, in one archive that podman and docker load.

`python tools/oci.py ROOT ARCHIVE NAME` writes an OCI image layout with one layer, and the
`manifest.json` that docker read before it knew OCI layouts. Equal roots give equal archives.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

_TYPE = "application/vnd.oci.image"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))


class Blobs:
    """The blobs of an image layout in a folder, by their digests."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "blobs/sha256"
        self._folder.mkdir(parents=True)

    def add_file(self, path: Path, media_type: str) -> dict[str, Any]:
        """Move a file in; return its descriptor."""
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = path.stat().st_size
        shutil.move(path, self._folder / digest)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": size}

    def add(self, content: dict[str, Any], media_type: str) -> dict[str, Any]:
        """Add an object; return its descriptor."""
        data = json.dumps(content, sort_keys=True).encode()
        digest = hashlib.sha256(data).hexdigest()
        (self._folder / digest).write_bytes(data)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}


def layer_of(root: Path, folder: Path) -> tuple[Path, str]:
    """Return the compressed layer of a root, and the digest of its content."""
    layer, digest = folder / "layer", hashlib.sha256()
    # Equal files give an equal layer, whatever was built when.
    argv = ("tar", "--create", "--sort=name", "--numeric-owner", f"--mtime=@{_EPOCH}")
    options = ("--exclude=./proc/*", "--exclude=./sys/*", "--exclude=./dev/*", "--directory")
    with (
        subprocess.Popen((*argv, *options, root, "."), stdout=subprocess.PIPE) as tar,
        gzip.GzipFile(layer, "wb", compresslevel=6, mtime=0) as packed,
    ):
        assert tar.stdout is not None
        while chunk := tar.stdout.read(1 << 20):
            digest.update(chunk)
            packed.write(chunk)
    if tar.returncode:
        sys.exit(f"oci: error: tar failed with {tar.returncode}")
    return layer, f"sha256:{digest.hexdigest()}"


def pack(root: Path, archive: Path, name: str) -> None:
    """Write the archive of a root."""
    with tempfile.TemporaryDirectory(dir=archive.parent) as temporary:
        folder = Path(temporary)
        layout = folder / "layout"
        blobs = Blobs(layout)
        path, content = layer_of(root, folder)
        layer = blobs.add_file(path, f"{_TYPE}.layer.v1.tar+gzip")
        config = blobs.add(
            {
                "architecture": _MACHINES[os.uname().machine],
                "os": "linux",
                "config": {
                    "Env": [f"PATH={_PATH}", "LANG=C.UTF-8"],
                    "Entrypoint": ["switchmark"],
                    "Cmd": ["--help"],
                    "WorkingDir": "/work",
                },
                "rootfs": {"type": "layers", "diff_ids": [content]},
                "history": [{"created_by": "tools/image.sh"}],
            },
            f"{_TYPE}.config.v1+json",
        )
        manifest = blobs.add(
            {
                "schemaVersion": 2,
                "mediaType": f"{_TYPE}.manifest.v1+json",
                "config": config,
                "layers": [layer],
            },
            f"{_TYPE}.manifest.v1+json",
        )
        tag = name.rpartition(":")[2]
        names = {
            "io.containerd.image.name": f"localhost/{name}",
            "org.opencontainers.image.ref.name": tag,
        }
        index = {"schemaVersion": 2, "manifests": [{**manifest, "annotations": names}]}
        of_docker = [
            {"Config": _blob(config), "RepoTags": [name], "Layers": [_blob(layer)]},
        ]
        files = {
            "oci-layout": {"imageLayoutVersion": "1.0.0"},
            "index.json": index,
            "manifest.json": of_docker,
        }
        for file, value in files.items():
            (layout / file).write_text(json.dumps(value, sort_keys=True))
        with tarfile.open(archive, "w") as packed:
            for path in sorted(layout.rglob("*")):
                if path.is_file():
                    _add(packed, path, str(path.relative_to(layout)))


def _blob(descriptor: dict[str, Any]) -> str:
    return "blobs/" + str(descriptor["digest"]).replace(":", "/")


def _add(packed: tarfile.TarFile, path: Path, name: str) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = path.stat().st_size, _EPOCH, 0o644
    with path.open("rb") as file:
        packed.addfile(member, file)


if __name__ == "__main__":
    pack(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
