"""`Test`, which is one point of a campaign: a value of each axis.

An axis is a field with its record (`model.axis`). Options, campaign files, the reference, records
and reports are made from these records; nothing else lists the axes. Their order here is their
order everywhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from switchmark.model.axis import Axis, Property, axes_of
from switchmark.model.topology import Semantics
from switchmark.model.units import (
    CORES_MAX,
    FLOW_NUMBERS,
    FLOWS_MAX,
    VLAN_USUAL,
    Rate,
    mean_frame_bytes,
    parse_cores,
    parse_count,
    parse_cpu_limit,
    parse_duration,
    parse_frame_size,
    parse_line_rate,
    parse_rate,
    parse_share,
    parse_shares,
)


def _usual_burst(axes: dict[str, Any]) -> int:
    """32 frames for throughput; one at a time for latency, unless bursts are asked for."""
    return 1 if axes.get("dimension") == "latency" else 32


def _limit(text: str | int | float) -> str:
    """Read a CPU limit, and write it with whom it is for."""
    return str(parse_cpu_limit(text))


class Test(BaseModel):
    """One point of a campaign.

    Each field has its type, its record, its default and a line on its value. Pydantic checks ranges
    here; names are checked against the tables later (`path.refusals`). Rates are per sender and
    stay as written.
    """

    __test__ = False  # not a test case, whatever pytest thinks of its name

    # Its validator is made when the first test is: `--help` starts a tenth sooner.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    dimension: Annotated[
        Literal["throughput", "latency"], Axis("path", "what is measured", used=2)
    ] = "throughput"
    """What is measured. In a test of latency receivers send every frame back."""

    locality: Annotated[
        Literal["local", "remote"],
        Axis("path", "whether both ends are on one host, or on two", blame_rank=3),
    ] = "local"
    """On how many hosts the test is; a remote one has its sender and its receiver on two."""

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
    """Names from the host file; None for this host."""

    scenario: Annotated[
        str,
        Axis(
            "path",
            "p2p, p2v, v2p, v2v: which ends are physical and which virtual; loopback",
            blame_rank=4,
            table="scenarios",
            used=3,
        ),
    ] = "v2v"
    """The name of a scenario, which draws the parts and the flows between them."""

    direction: Annotated[
        Literal["uni", "bi"], Axis("path", "which way frames go", blame_rank=4, used=1)
    ] = "uni"
    """Whether frames go from the first end to the second only, or both ways at once."""

    switch: Annotated[
        str,
        Axis(
            "switch",
            "the switches under test; of one program several versions: NAME@VERSION, NAME@/PATH",
            blame_rank=1,
            table="switches",
            own_column=True,
            used=4,
        ),
    ] = "linux-bridge"
    """The name of a switch, or of one of its versions."""

    switch_environment: Annotated[
        str,
        Axis(
            "switch",
            "where the switch runs",
            blame_rank=1,
            table="environments",
            asked_as="where",
            used=1,
        ),
    ] = "netns"
    """The name of the environment of the switch's node."""

    environment: Annotated[
        str,
        Axis("functions", "where the functions run", blame_rank=1, table="environments", used=4),
    ] = "netns"
    """The name of the environment of the functions' nodes."""

    image: Annotated[
        str | None,
        Axis(
            "functions", "the functions' container image or root, or disk, instead of one made here"
        ),
    ] = None
    """What the nodes of the functions are made of; None for what their environment makes."""

    function: Annotated[
        str,
        Axis(
            "chain",
            "what forwards in the functions of a chain; traffic is the usual forwarder",
            blame_rank=1,
            table="functions",
            used=1,
        ),
    ] = "traffic"
    """The name of the function that forwards in a chain."""

    function_semantics: Annotated[
        Literal["auto", "mac"],
        Axis(
            "chain",
            "what functions do to MACs: as they do (auto), or each writes its own as the source "
            "and the next hop's as the destination (mac)",
            later=True,
        ),
    ] = "auto"
    """Whether the functions of a chain write MACs; `auto` is up to the function."""

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
    """The name of the engine that opens the ports of the traffic program."""

    driver: Annotated[
        str,
        Axis(
            "ports",
            "how engine dpdk opens a port: virtio-user, vhost, memif, af_packet, af_xdp, ...",
            values="`auto`, a driver of the engine",
        ),
    ] = "auto"
    """The driver of the engine for its ports; `auto` is up to the kind of port."""

    port: Annotated[
        str,
        Axis(
            "ports",
            "how ports are attached: veth, vhost-user, memif, ...",
            blame_rank=3,
            values="`auto`, a kind of port of the [switch](switches.md)",
            used=1,
        ),
    ] = "auto"
    """The kind of the ports; `auto` is the first of the switch's that all of the path can open."""

    listen: Annotated[
        Literal["auto", "switch", "functions"],
        Axis(
            "switch",
            "which side of a vhost-user port listens, the other connects (auto: the driver's)",
            followed_by=("switch",),
            blame_rank=2,
            later=True,
        ),
    ] = "auto"
    """Which side creates the sockets of vhost-user ports."""

    semantics: Annotated[
        str,
        Axis(
            "switch",
            f"what the switch does: {', '.join(Semantics)}",
            blame_rank=6,
            values=f"`auto`, `{'`, `'.join(Semantics)}`",
        ),
    ] = "auto"
    """What the switch does with a frame; `auto` is the first of its driver that fits the path."""

    memory: Annotated[
        Literal["auto", "hugepages", "no-huge"],
        Axis("ports", "where DPDK's frames lie", tries=("no-huge",)),
    ] = "auto"
    """The memory of DPDK's frames; `auto` is hugepages where the host has enough of them."""

    offload: Annotated[
        Literal["auto", "off"],
        Axis(
            "ports",
            "auto: DPDK's devices make checksums, check them and note times where they can",
            followed_by=("engine",),
        ),
    ] = "auto"
    """Whether DPDK's devices may compute checksums and take timestamps."""

    switch_cores: Annotated[
        int | Literal["auto"],
        Axis(
            "switch",
            "CPUs of a switch that polls (auto: 1), or on which the kernel works for its own",
            followed_by=("switch",),
            blame_rank=2,
            values=f"`auto`, number, 1 to {CORES_MAX}",
            parse=parse_cores,
            asked_as="where",
            used=1,
        ),
    ] = "auto"
    """CPUs of the switch; `auto` is one where it polls."""

    queues: Annotated[
        int,
        Axis(
            "ports",
            "pairs of queues of each port",
            followed_by=("switch", "engine"),
            blame_rank=1,
            tries=(2, 4),
        ),
    ] = Field(1, ge=1, le=16)
    """Pairs of a receive and a transmit queue, of each port."""

    function_cores: Annotated[
        int,
        Axis(
            "ports",
            "CPUs of each part that the traffic program plays, each with queues of its own",
            followed_by=("engine",),
            blame_rank=1,
            later=True,
        ),
    ] = Field(1, ge=1, le=16)
    """CPUs of each sender, receiver and forwarder; each of them has its own queues."""

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
    """The length of each queue, in frames; None for the default of its program."""

    rx_affinity: Annotated[
        Literal["auto", "fixed"],
        Axis(
            "switch",
            "receive queues and CPUs of the switch: as it likes (auto), or each stays with one, in "
            "turn (fixed)",
            followed_by=("switch",),
            blame_rank=1,
            later=True,
        ),
    ] = "auto"
    """Whether the switch may move its receive queues from one of its CPUs to another."""

    switch_burst: Annotated[
        int | None,
        Axis(
            "switch",
            "frames that the switch takes from a port at once, at most",
            followed_by=("switch",),
            blame_rank=1,
            unit="frames",
            tries=(8, 16, 64, 128, 256),
            later=True,
        ),
    ] = Field(None, ge=1, le=512)
    """The most frames in a burst of the switch; None for its default."""

    buffers: Annotated[
        int | None,
        Axis(
            "switch",
            "frames that the memory of the switch has room for",
            followed_by=("switch",),
            blame_rank=1,
            unit="frames",
            tries=(8192, 32768, 65536, 131072),
            later=True,
        ),
    ] = Field(None, ge=1024, le=1048576)
    """The size of the switch's pool of buffers, in frames; None for its default."""

    ip_version: Annotated[
        Literal["4", "6"],
        Axis(
            "path",
            "IP of every frame; in a tunnel of the one inside",
            parse=str,
            asked_as="load",
            later=True,
        ),
    ] = "4"
    """The IP version of every frame, as text; in a tunnel of the inner frame."""

    encapsulation: Annotated[
        Literal["auto", "none", "vlan", "vxlan", "vxlan6"],
        Axis(
            "path",
            "what frames are in: a VLAN (auto: if --vlan says which), a VXLAN tunnel of IPv4 or 6",
            asked_as="load",
            later=True,
        ),
    ] = "auto"
    """What every frame is wrapped in; `auto` is a VLAN tag where `vlan` has an id, else nothing."""

    flow_order: Annotated[
        Literal["sequential", "random", "zipf"],
        Axis(
            "path",
            "which flow the next frame is of: in turn, any, or any by Zipf's law (the k-th 1/k)",
            asked_as="load",
            later=True,
        ),
    ] = "sequential"
    """The order in which a sender picks the flow of its next frame."""

    arrivals: Annotated[
        Literal["burst", "even", "poisson", "on-off"],
        Axis(
            "load",
            "inter-arrival pattern at a fixed rate: bursts, constant spacing, Poisson, on-off "
            "(4x peak)",
            later=True,
        ),
    ] = "burst"
    """When frames leave at a given rate; without effect at `max`."""

    frame_size: Annotated[
        int | str,
        Axis(
            "load",
            "bytes with the FCS, or imix",
            unit="bytes",
            parse=parse_frame_size,
            values="`64` to `9600`, `imix`",
            json_name="frame_bytes",
            heading="bytes",
            own_column=True,
            used=2,
        ),
    ] = 64
    """Bytes with the FCS, or `imix`, a mix of three sizes."""

    rate: Annotated[
        str,
        Axis(
            "load",
            "per sender: max, 10M, 500kpps, 2.5Gbps, 50% (of R+; up to 1000%)",
            unit="pps",
            parse=parse_rate,
            as_written=True,
            values="`max`, `1000`, `10M`, `500kpps`, `2.5Gbps`, `50%`",
            json_number="rate_pps",
            used=2,
        ),
    ] = "max"
    """As written; `rate_pps` is what it comes to. The rate of each sender, not their sum."""

    line_rate: Annotated[
        str | None,
        Axis(
            "load",
            "what a link of each sender would carry, which sends no faster: 10Gbps",
            unit="pps",
            parse=parse_line_rate,
            as_written=True,
            values="`10Gbps`, `1M`",
            later=True,
        ),
    ] = None
    """As written: the rate of each sender's link; None for a sender that no link limits."""

    burst: Annotated[
        int,
        Axis(
            "load",
            "frames handed over at once [32; 1 for latency]",
            unit="frames",
            left_out=1,
            used=1,
        ),
    ] = Field(default_factory=_usual_burst, ge=1, le=4096)
    """Frames that a sender hands to its engine at once."""

    pairs: Annotated[int, Axis("path", "senders, each with its receiver", blame_rank=5, used=1)] = (
        Field(1, ge=1, le=64)
    )
    """Senders, each with a receiver of its own; they share the switch."""

    chain: Annotated[
        int,
        Axis(
            "chain",
            "functions in a row, in loopback; in p2v the last of them receives",
            blame_rank=4,
            used=2,
        ),
    ] = Field(1, ge=1, le=8)
    """Functions one after the other in each chain."""

    chains: Annotated[int, Axis("chain", "chains side by side, in loopback", blame_rank=5)] = Field(
        1, ge=1, le=64
    )
    """Chains between the same two ends; each has functions of its own."""

    flows: Annotated[
        int,
        Axis(
            "path",
            "flows of each sender: 64, 10k, 1M",
            parse=parse_count,
            values=f"`1` to `{FLOWS_MAX // 1_000_000}M`, `10k`",
            asked_as="load",
        ),
    ] = Field(1, ge=1, le=FLOWS_MAX)
    """Flows of each sender, told apart by the header fields that `flows_by` names."""

    flows_by: Annotated[
        Literal["mac", "ip", "port"],
        Axis("path", "what the flows of a sender differ in", asked_as="load"),
    ] = "port"
    """The addresses or the port that differ from flow to flow."""

    copies: Annotated[
        int,
        Axis(
            "path",
            "functions or physical ports that each frame is copied to",
            followed_by=("switch",),
            blame_rank=5,
            asked_as="load",
        ),
    ] = Field(1, ge=1, le=64)
    """Receivers of each frame; the switch makes the copies."""

    vlan: Annotated[
        int | None, Axis("path", "VLAN id of every frame, or none", asked_as="load")
    ] = Field(None, ge=1, le=4094)
    """The id in the VLAN tag of every frame; None for the usual one, or no tag."""

    touch: Annotated[
        Literal["none", "header", "full"],
        Axis("load", "how much of a payload is written and checked"),
    ] = "header"
    """How much of each payload senders write and receivers check."""

    placement: Annotated[
        str,
        Axis(
            "path",
            "how parts are put on cores: auto, pinned, unpinned (:switch, :function: that alone), "
            "shared-process, CPUs (0+2-5)",
            values="`auto`, `pinned`, `unpinned`, `unpinned:switch`, `unpinned:function`, "
            "`shared-process`, CPUs: `0+2-5`",
            asked_as="where",
            used=2,
        ),
    ] = "auto"
    """The policy by which parts get CPUs, or the CPUs themselves."""

    cpu_limit: Annotated[
        str | None,
        Axis(
            "functions",
            "percent of a core, of the switch or each function: 50, function:12.5",
            unit="percent of a core",
            parse=_limit,
            values="`50`, `switch:50`, `function:12.5`",
            used=2,
        ),
    ] = None
    """A limit as a share of one CPU, by cgroup; None for no limit."""

    noise: Annotated[
        str | None,
        Axis(
            "load",
            "background load during the test: cpu, memory, cache, io, web; on given CPUs: cpu:0+1",
            values="`cpu`, `web:0+1`, `cache:switch`, `io:functions`",
        ),
    ] = None
    """Background load while trials run, and its CPUs; None for no load."""

    profile: Annotated[
        int | None,
        Axis(
            "method",
            "samples a second of what each CPU does, by kernel function (perf record), or none",
            unit="samples a second",
            later=True,
        ),
    ] = Field(None, ge=1, le=10_000)
    """Samples of `perf record` a second and CPU; None for no profile."""

    search: Annotated[
        str, Axis("method", "how the rate is found", table="searches", left_out=1, used=2)
    ] = "fixed"
    """The name of the search that picks the loads of trials."""

    loss_ratio: Annotated[
        float, Axis("method", "of the goal pdr: 0.5%", parse=parse_share, values="`0.5%`, `0.005`")
    ] = 0.005
    """The share of frames that search `pdr` lets a switch lose."""

    precision: Annotated[
        float,
        Axis(
            "method",
            "how narrow a rate is bounded: 0.5%",
            parse=parse_share,
            values="`0.5%`, `0.005`",
        ),
        # A search that is asked for much less comes to where no number lies between two rates.
    ] = Field(0.005, ge=1e-9)
    """The width of the interval at which a search stops, as a share of the rate."""

    loads: Annotated[
        str,
        Axis(
            "method",
            "of search latency-at-load, in percent of R+",
            unit="percent of R+",
            parse=parse_shares,
            as_written=True,
            values="`10,50,99`",
            undivided=True,
        ),
    ] = "10,50,99"
    """As written: the loads at which search `latency-at-load` measures."""

    duration: Annotated[
        float,
        Axis(
            "method",
            "of a trial: 2, 500ms, 1min; 0.3 with 20 repeats by default for several switches",
            unit="s",
            parse=parse_duration,
            values="`2`, `0.5`, `200ms`, `30s`, `2min`, `1h`",
            compared=0.3,
            apart=1.6,
            json_name="duration_s",
            left_out=1,
            used=1,
        ),
    ] = Field(10.0, gt=0, le=86400)
    """Seconds of a trial that are measured."""

    warmup: Annotated[
        float,
        Axis(
            "method",
            "before it, not counted; before the first of a path in turn, 0.5",
            unit="s",
            parse=parse_duration,
            compared=0.05,
            values="as `duration`, or `0`",
            json_name="warmup_s",
            left_out=3,
            used=1,
        ),
    ] = Field(0.5, ge=0, le=3600)
    """Seconds of traffic before each trial, which are not measured."""

    repeat: Annotated[
        int,
        Axis(
            "method",
            "trials of each test, or whole searches, those of all tests in turn; 20 trials by "
            "default for several switches, 5 of a given duration",
            compared=20,
            apart=5,
            given=5,
            left_out=2,
            asked_as="statistics",
            used=2,
        ),
    ] = Field(1, ge=1, le=1000)
    """Trials of the test; of a search, whole searches."""

    finals: Annotated[
        int,
        Axis(
            "method",
            "trials of a search at the rate that it finds, or at each load; bursts of back-to-back",
            later=True,
            asked_as="statistics",
        ),
    ] = Field(1, ge=1, le=1000)
    """Trials at the rate that a search has found; its figures are those of these."""

    until_certain: Annotated[
        float | None,
        Axis(
            "method",
            "repeat (at least 12 times) until the half-width of the 95 % interval is below this, "
            "e.g. 1%",
            parse=parse_share,
            values="`1%`, `0.01`",
            left_out=1,
            asked_as="statistics",
            used=1,
        ),
    ] = None
    """The half-width of the 95 % interval at which repeats stop, as a share of the median."""

    until_decided: Annotated[
        int | None,
        Axis(
            "method",
            "go on to so many repeats, until compared switches are told apart or shown to be the "
            "same; they are judged three times at most",
            later=True,
            asked_as="statistics",
        ),
    ] = Field(None, ge=3, le=1000)
    """The most repeats of a test whose comparison is still open; None stops at `repeat`."""

    seed: Annotated[
        int,
        Axis(
            "method",
            "shuffles the order; 0 runs as written",
            of_campaign=True,
            left_out=3,
            asked_as="statistics",
        ),
    ] = Field(0, ge=0)
    """The seed of the order in which a campaign runs its tests and loads; 0 keeps it as written."""

    nic: Annotated[
        str | None,
        Axis(
            "ports",
            "real NICs, by interface or PCI address: PART=SWITCH-NIC:GENERATOR-NIC,...",
            blame_rank=6,
            values="`a0=eth1:eth2,b0=0000:03:00.0:0000:04:00.0`",
            undivided=True,
            used=2,
        ),
    ] = None
    """As written: for physical ports, the NIC of the switch and the NIC at the other end."""

    @property
    def switch_core_count(self) -> int:
        """Return how many CPUs a switch that polls has: one, unless it is asked to have more."""
        return 1 if self.switch_cores == "auto" else self.switch_cores

    @property
    def tag(self) -> int | None:
        """Return the VLAN id of every frame; None for frames without a tag."""
        return self.vlan or (VLAN_USUAL if self.encapsulation == "vlan" else None)

    @property
    def tunnel(self) -> Literal["4", "6"] | None:
        """Return the IP of the tunnel that frames are in; None if they are in none."""
        of: dict[str, Literal["4", "6"]] = {"vxlan": "4", "vxlan6": "6"}
        return of.get(self.encapsulation)

    @property
    def outer_ip_version(self) -> Literal["4", "6"]:
        """Return the IP of what a switch sees: of the tunnel, if frames are in one."""
        return self.tunnel or self.ip_version

    @property
    def flow_numbers(self) -> int:
        """Return how many flows of a sender its frames number, which are counted by themselves: all
        of them, or one a queue (or core) where they are too many or in no order. These have
        sub-flows."""
        senders = self.pairs * self.chains * (2 if self.direction == "bi" else 1)
        numbered = self.flow_order == "sequential" and self.flows * senders <= FLOW_NUMBERS
        return self.flows if numbered else max(self.queues, self.function_cores)

    @property
    def limits(self) -> Mapping[str, float]:
        """Return the CPU limit in percent of one core, of `switch` or of `function`."""
        if self.cpu_limit is None:
            return {}
        limit = parse_cpu_limit(self.cpu_limit)
        return {limit.who: limit.percent}

    @property
    def parsed_rate(self) -> Rate:
        """Return the rate as it was asked for: `max`, in frames, in bits, or as a share of R+."""
        return parse_rate(self.rate)

    @property
    def saturates(self) -> bool:
        """Say whether some trial will ask for more than may be carried."""
        found = self.parsed_rate.is_max or self.search != "fixed"
        return self.dimension == "throughput" and found

    @property
    def rate_pps(self) -> float | None:
        """Return the frames per second of each sender; None for a share of R+, and for `max`
        without a line rate."""
        if self.parsed_rate.is_max:
            return self.line_pps
        return self.parsed_rate.per_second(mean_frame_bytes(self.frame_size))

    @property
    def line_pps(self) -> float | None:
        """Return the frames per second that the link of a sender would carry; None without one."""
        if self.line_rate is None:
            return None
        return parse_line_rate(self.line_rate).per_second(mean_frame_bytes(self.frame_size))


AXES = axes_of(Test)
"""The record of every axis, by the name of its field, in the order of the fields."""


def usual_values(*of: Property) -> dict[str, Any]:
    """Return the usual values of the axes that are properties of these, by name."""
    return {axis.name: axis.default for axis in AXES.values() if axis.of in of}


def axes_in_key(test: Test) -> dict[str, Any]:
    """Return the axes of a test as keys have them."""
    axes = {
        name: value
        for name, value in test.model_dump(mode="json").items()
        if not (AXES[name].later and value == AXES[name].default)
    }
    # What is `auto` now was 1 before 1 could be asked for.
    cores = axes["switch_cores"]
    return {**axes, "switch_cores": {"auto": 1, 1: "1"}.get(cores, cores)}


def key_of_content(content: Mapping[str, Any]) -> str:
    """Return the hash of what a result depends on: results of one key belong together. A run folder
    and a cache find what they have by it, so it stays the same from version to version."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
