"""Writes the bill of materials of a release as CycloneDX: switchmark-VERSION.cdx.json.

It names the Python packages that the wheel installs, as cyclonedx-py finds them in a new
environment, and the Debian packages whose static libraries are in the programs. tools/dist.sh calls
it: `python tools/sbom.py WORK OUT PROCESSOR...`, where OUT has the wheels.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

LINKED = {
    "libjansson-dev": ("jansson", "MIT"),
    "libbpf-dev": ("libbpf", "LGPL-2.1-only OR BSD-2-Clause"),
    "libxdp-dev": ("libxdp", "LGPL-2.1-only OR BSD-2-Clause"),
    "libelf-dev": ("libelf", "LGPL-3.0-or-later OR GPL-2.0-or-later"),
    "zlib1g-dev": ("zlib", "Zlib"),
}
"""The Debian packages with the static libraries: name and licence of what they contain."""

_FIELDS = ("Package", "Version")


def linked(folder: Path, processors: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the components that are linked into the programs, from the unpacked packages."""
    for processor in processors:
        words = (folder / processor / "libraries/versions").read_text().split()
        fields = [word for word in words if word.rstrip(":") not in _FIELDS]
        found = dict(zip(fields[::2], fields[1::2], strict=True))
        architecture = {"x86_64": "amd64", "aarch64": "arm64"}[processor]
        for package, (name, licence) in LINKED.items():
            purl = f"pkg:deb/debian/{package}@{found[package].replace(':', '%3A')}"
            purl += f"?arch={architecture}"
            yield {
                "type": "library",
                "bom-ref": purl,
                "name": name,
                "version": found[package],
                "description": f"linked statically into the programs for {processor}",
                "licenses": [{"expression": licence}],
                "purl": purl,
            }


def installed(folder: Path, wheel: Path) -> dict[str, Any]:
    """Return the bill of a new environment with nothing but the wheel and what it installs."""
    place = folder / "installed"
    python = str(place / "bin/python")
    subprocess.run((sys.executable, "-m", "venv", "--clear", "--without-pip", place), check=True)
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    subprocess.run((*pip, "--python", python, "install", wheel), check=True)
    options = ("--output-reproducible", "--pyproject", "pyproject.toml")
    command = ("cyclonedx-py", "environment", *options, python)
    bill = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    content: dict[str, Any] = json.loads(bill.stdout)
    return content


def main() -> None:
    """Write the bill for the wheels of a release."""
    folder, out, processors = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    wheel = next(iter(out.glob(f"*_{os.uname().machine}.whl")), None)
    if wheel is None:
        raise SystemExit("there is no wheel for this processor to install")
    version = wheel.name.split("-")[1]
    bill = installed(folder, wheel)
    itself = bill["metadata"]["component"]
    itself["version"] = version
    added = list(linked(folder, processors))
    bill["components"] += added
    for entry in bill["dependencies"]:
        if entry["ref"] == itself["bom-ref"]:
            named = (component["bom-ref"] for component in added)
            entry["dependsOn"] = sorted([*entry.get("dependsOn", ()), *named])
    bill["dependencies"] += [{"ref": component["bom-ref"]} for component in added]
    path = out / f"switchmark-{version}.cdx.json"
    path.write_text(json.dumps(bill, indent=2) + "\n")
    _check(path)


def _check(path: Path) -> None:
    """Raise SystemExit if the bill does not follow the schema that it names."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text = path.read_text()
    version = SchemaVersion.from_version(json.loads(text)["specVersion"])
    error = JsonStrictValidator(version).validate_str(text)
    if error is not None:
        raise SystemExit(f"{path}: {error}")


if __name__ == "__main__":
    main()
