"""The first half of a test's axes: what is set up for it, and where.

Their records are as those of the other half (`model.spec`), which has all of them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from switchmark.model.axis import Axis
from switchmark.model.topology import Semantics
from switchmark.model.units import CORES_MAX, parse_cores


class SetUp(BaseModel):
    """A set-up has the scenario, the switch, the functions and the ports of a test."""

    # Its validator is made when the first test is: `--help` starts a tenth sooner.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    dimension: Annotated[
        Literal["throughput", "latency"], Axis("path", "what is measured", used=2)
    ] = "throughput"
    locality: Annotated[
        Literal["local", "remote"],
        Axis("path", "whether both ends are on one host, or on two", blame=3),
    ] = "local"
    hosts: Annotated[
        str | None,
        Axis(
            "path",
            "the host of a local test, if not this; of a remote one the sender's, the receiver's",
            values="`a` or `a,b`: names of the host file",
            undivided=True,
            later=True,
        ),
    ] = None
    scenario: Annotated[
        str,
        Axis(
            "path",
            "p2p, p2v, v2p, v2v: which ends are physical and which virtual; loopback",
            blame=4,
            table="scenarios",
            used=3,
        ),
    ] = "v2v"
    direction: Annotated[
        Literal["uni", "bi"], Axis("path", "which way frames go", blame=4, used=1)
    ] = "uni"
    switch: Annotated[
        str,
        Axis(
            "switch",
            "the switches under test; of one program several versions: NAME@VERSION, NAME@/PATH",
            blame=1,
            table="switches",
            own_column=True,
            used=4,
        ),
    ] = "linux-bridge"
    switch_environment: Annotated[
        str,
        Axis(
            "switch",
            "where the switch runs",
            blame=1,
            table="environments",
            asked_as="where",
            used=1,
        ),
    ] = "netns"
    environment: Annotated[
        str, Axis("functions", "where the functions run", blame=1, table="environments", used=4)
    ] = "netns"
    image: Annotated[
        str | None,
        Axis(
            "functions", "the functions' container image or root, or disk, instead of one made here"
        ),
    ] = None
    function: Annotated[
        str,
        Axis(
            "chain",
            "what forwards in the functions of a chain; traffic is the usual forwarder",
            blame=1,
            table="functions",
            used=1,
        ),
    ] = "traffic"
    function_semantics: Annotated[
        Literal["auto", "mac"],
        Axis(
            "chain",
            "what functions do to MACs: as they do (auto), or each writes its own as the source "
            "and the next hop's as the destination (mac)",
            later=True,
        ),
    ] = "auto"
    engine: Annotated[
        str,
        Axis(
            "path",
            "the packet I/O of the traffic program",
            table="engines",
            chosen="auto",
            own_column=True,
            asked_as="where",
            used=3,
        ),
    ] = "raw-mmsg"
    driver: Annotated[
        str,
        Axis(
            "ports",
            "how engine dpdk opens a port: virtio-user, vhost, memif, af_packet, af_xdp, ...",
            values="`auto`, a driver of the engine",
        ),
    ] = "auto"
    port: Annotated[
        str,
        Axis(
            "ports",
            "how ports are attached: veth, vhost-user, memif, ...",
            blame=3,
            values="`auto`, a kind of port of the [switch](switches.md)",
            used=1,
        ),
    ] = "auto"
    listen: Annotated[
        Literal["auto", "switch", "functions"],
        Axis(
            "switch",
            "which side of a vhost-user port listens, the other connects (auto: the driver's)",
            followed_by=("switch",),
            blame=2,
            later=True,
        ),
    ] = "auto"
    semantics: Annotated[
        str,
        Axis(
            "switch",
            f"what the switch does: {', '.join(Semantics)}",
            blame=6,
            values=f"`auto`, `{'`, `'.join(Semantics)}`",
        ),
    ] = "auto"
    memory: Annotated[
        Literal["auto", "hugepages", "no-huge"],
        Axis("ports", "where DPDK's frames lie", tries=("no-huge",)),
    ] = "auto"
    offload: Annotated[
        Literal["auto", "off"],
        Axis(
            "ports",
            "auto: DPDK's devices make checksums, check them and note times where they can",
            followed_by=("engine",),
        ),
    ] = "auto"
    switch_cores: Annotated[
        int | Literal["auto"],
        Axis(
            "switch",
            "CPUs of a switch that polls (auto: 1), or on which the kernel works for its own",
            followed_by=("switch",),
            blame=2,
            values=f"`auto`, number, 1 to {CORES_MAX}",
            parse=parse_cores,
            asked_as="where",
            used=1,
        ),
    ] = "auto"
    queues: Annotated[
        int,
        Axis(
            "ports",
            "pairs of queues of each port",
            followed_by=("switch", "engine"),
            blame=1,
            tries=(2, 4),
        ),
    ] = Field(1, ge=1, le=16)
    function_cores: Annotated[
        int,
        Axis(
            "ports",
            "CPUs of each part that the traffic program plays, each with queues of its own",
            followed_by=("engine",),
            blame=1,
            later=True,
        ),
    ] = Field(1, ge=1, le=16)
    descriptors: Annotated[
        int | None,
        Axis(
            "ports",
            "length of each queue",
            followed_by=("engine",),
            unit="frames",
            tries=(256, 512, 2048, 4096),
        ),
    ] = Field(None, ge=64, le=32768)
    rx_affinity: Annotated[
        Literal["auto", "fixed"],
        Axis(
            "switch",
            "receive queues and CPUs of the switch: as it likes (auto), or each stays with one, in "
            "turn (fixed)",
            followed_by=("switch",),
            blame=1,
            later=True,
        ),
    ] = "auto"
    switch_burst: Annotated[
        int | None,
        Axis(
            "switch",
            "frames that the switch takes from a port at once, at most",
            followed_by=("switch",),
            blame=1,
            unit="frames",
            tries=(8, 16, 64, 128, 256),
            later=True,
        ),
    ] = Field(None, ge=1, le=512)
    buffers: Annotated[
        int | None,
        Axis(
            "switch",
            "frames that the memory of the switch has room for",
            followed_by=("switch",),
            blame=1,
            unit="frames",
            tries=(8192, 32768, 65536, 131072),
            later=True,
        ),
    ] = Field(None, ge=1024, le=1048576)
