"""The plan that makes the programs of a container image available to the steps of a switch.

An image gives files and environment variables, and nothing else. A container that sleeps keeps its
files mounted; a program starts with their root (`chroot`) as a process of the run, in the node of
the switch: namespaces, control groups, CPUs, signals and sockets are those of a program of the host
(decision 0072).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath

from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.environments.base import Environment
from switchmark.environments.containers import OfClient
from switchmark.hosts.images import USUAL_PATH
from switchmark.model.plan import HOST, Node, Plan, Run, Write
from switchmark.model.topology import Wiring
from switchmark.model.version import Image
from switchmark.switches.base import programs_folder

_STARTER = """\
#!/bin/sh
chroot=$(command -v chroot) || exit
exec env {variables} "$chroot" /proc/{process}/root {program} "$@"
"""


def engine_of(image: Image) -> Environment:
    """Return the environment of the engine that has an image."""
    return ENVIRONMENTS[image.engine]


def image_steps(wiring: Wiring, modes: Mapping[str, str | None]) -> Plan:
    """Return the steps before the start of a switch that comes from an image: the container that
    keeps its files, and a file that starts each program. Empty for another switch. `modes` has the
    modes of the environments that were probed."""
    image = wiring.version.image
    if image is None:
        return ()
    engine, node = engine_of(image), _holder(wiring, image)
    assert isinstance(engine, OfClient)
    folder, process = programs_folder(wiring, image), f"${{{node.name}-pid}}"
    files = {f"{folder}/{name}": program for name, program in image.programs.items()}
    here = replace(HOST, host=wiring.node.host)
    mount = ("mount", "--namespace", process, "-t")
    return (
        *engine.hold(node, (wiring.ports_dir, wiring.switch_dir), modes.get(image.engine)),
        Run("its /proc shows the processes of the run", (*mount, "proc", "proc", "/proc"), here),
        Run(
            "its /sys shows the network of the switch",
            (*mount, "sysfs", "sysfs", "/sys"),
            at=wiring.node,
        ),
        Run(
            "a folder of the programs of the image",
            ("mkdir", "-p", folder),
            at=here,
            undo=("rm", "-rf", folder),
        ),
        *(
            Write(
                f"{PurePath(path).name} starts with the files of the image",
                path,
                _starter(image, program, process).encode(),
                at=here,
            )
            for path, program in files.items()
        ),
        Run("they are programs", ("chmod", "+x", *files), at=here),
    )


def _holder(wiring: Wiring, image: Image) -> Node:
    """Return the container that keeps the files of an image, as a node."""
    prefix = wiring.node.name.rpartition("-")[0]
    return Node(
        f"{prefix}-image{image.key}",
        image.engine,
        wiring.node.host,
        wiring.run_dir,
        image.id or image.name,
        isolated=True,
    )


def _starter(image: Image, program: str, process: str) -> str:
    """Return the text of a file that starts a program with the files and the environment variables
    of an image. Programs in the folder of the switch come first on its PATH."""
    switch, *_ = image.programs.values()
    own = [str(PurePath(switch).parent)] if PurePath(switch).is_absolute() else []
    search = ":".join([*own, image.env.get("PATH", USUAL_PATH)])
    variables = {**image.env, "PATH": search}
    return _STARTER.format(
        program=_literal(program),
        process=process,
        variables=" ".join(f"{name}={_literal(value)}" for name, value in variables.items()),
    )


def _literal(value: str) -> str:
    """Return a shell word for a value, without `${`: the executor would fill in `${name}`."""
    return shlex.quote(value).replace("${", "$''{")
