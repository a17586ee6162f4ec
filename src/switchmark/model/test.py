"""`Test`, a point of a campaign: a value for every axis.

An axis is a field with its record (`model.axis`). Options, campaign files, the reference, records
and reports are generated from these records. This is the only list of the axes, and every output
keeps their order.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from switchmark.model.axis import Axis, Property, axes_of
from switchmark.model.event import KINDS, LOAD, Event, parse_events, written_events
from switchmark.model.preparation import ALL, TABLE, parse_preparations
from switchmark.model.topology import Semantics
from switchmark.model.units import (
    CORES_MAX,
    FLOW_NUMBERS,
    FLOWS_MAX,
    RFC2544_SIZES,
    VLAN_USUAL,
    Rate,
    mean_frame_bytes,
    parse_cores,
    parse_count,
    parse_cpu_limit,
    parse_duration,
    parse_exceed_ratio,
    parse_frame_size,
    parse_line_rate,
    parse_rate,
    parse_share,
    parse_shares,
    parse_verification,
    sizes_of,
)

SMALL_BYTES = 256
"""The longest frame whose checksum is cheaper in software, in bytes with the FCS."""


def _usual_burst(axes: dict[str, Any]) -> int:
    """32 frames for throughput, 1 for latency and outage."""
    return 32 if axes.get("dimension") == "throughput" else 1


USUAL_OUTAGE_RATE = "10%"
"""The default rate of an outage test: a share of the smallest R+ of the compared switches."""


def _limit(text: str | int | float) -> str:
    """Return a CPU limit in its full spelling, such as `switch:50`."""
    return str(parse_cpu_limit(text))


class Test(BaseModel):
    """A point of a campaign.

    A field has a type, a record, a default and a line on its value. Pydantic checks ranges here,
    and `path.refusals` checks names against the tables later. Rates are per sender and stay as
    written.
    """

    __test__ = False  # not a test case, whatever pytest thinks of its name

    # Pydantic builds the validator with the first test, which makes `--help` 10 % faster.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    dimension: Annotated[
        Literal["throughput", "latency", "outage"],
        Axis("path", "the quantity to measure", used=2),
    ] = "throughput"
    """The measured quantity. In a latency test, receivers send every frame back. In an outage test,
    an event disturbs the switch."""

    locality: Annotated[
        Literal["local", "remote"],
        Axis("path", "both ends on the same host, or on two hosts", blame_rank=3),
    ] = "local"
    """One host, or two: a remote test has its sender and its receiver on different hosts."""

    hosts: Annotated[
        str | None,
        Axis(
            "path",
            "where to run: a host, or the sender's and the receiver's for a remote test",
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
            "physical (p) or virtual (v) ends: p2p, p2v, v2p, v2v; or loopback through a chain",
            blame_rank=4,
            table="scenarios",
            used=3,
        ),
    ] = "v2v"
    """The name of a scenario, which defines the parts and the flows between them."""

    direction: Annotated[
        Literal["uni", "bi"],
        Axis("path", "traffic in one direction or in both", blame_rank=4, used=1),
    ] = "uni"
    """Unidirectional traffic from the first end to the second, or bidirectional traffic."""

    switch: Annotated[
        str,
        Axis(
            "switch",
            "the switches under test; NAME@VERSION, NAME@/PATH or NAME@image:IMAGE picks a version",
            blame_rank=1,
            table="switches",
            own_column=True,
            used=4,
        ),
    ] = "linux-bridge"
    """The name of a switch, or of a version of it."""

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
            "functions",
            "container image, root directory or disk of the functions, instead of a generated one",
        ),
    ] = None
    """The image of the functions' nodes; None for an image that their environment generates."""

    function: Annotated[
        str,
        Axis(
            "chain",
            "the forwarding program in the functions of a chain (traffic: the built-in forwarder)",
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
            "whether functions rewrite MACs: the function's default (auto), or its own MAC as the "
            "source and the next hop's as the destination (mac)",
            later=True,
        ),
    ] = "auto"
    """Whether the functions of a chain rewrite MACs; `auto` is the default of the function."""

    engine: Annotated[
        str,
        Axis(
            "path",
            "the packet I/O API of the traffic program",
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
    """The driver of the engine for its ports; `auto` is the default for the kind of port."""

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
    """The kind of the ports; `auto` is the switch's first kind that the whole path can open."""

    listen: Annotated[
        Literal["auto", "switch", "functions"],
        Axis(
            "switch",
            "the side of a vhost-user port that listens (auto: the default of the switch)",
            followed_by=("switch",),
            blame_rank=2,
            later=True,
        ),
    ] = "auto"
    """The side that creates the sockets of vhost-user ports."""

    semantics: Annotated[
        str,
        Axis(
            "switch",
            f"how the switch forwards frames: {', '.join(Semantics)}",
            blame_rank=6,
            values=f"`auto`, `{'`, `'.join(Semantics)}`",
        ),
    ] = "auto"
    """How the switch forwards frames; `auto` is its driver's first semantics that fits the path."""

    memory: Annotated[
        Literal["auto", "hugepages", "no-huge"],
        Axis("ports", "pages for DPDK's frames", tries=("no-huge",)),
    ] = "auto"
    """The memory of DPDK's frames; `auto` is hugepages where the host has enough of them."""

    offload: Annotated[
        Literal["auto", "on", "off"],
        Axis(
            "ports",
            "checksums by DPDK's devices, if supported (auto: with touch full, above 256 B)",
            followed_by=("engine",),
        ),
    ] = "auto"
    """Whether DPDK's devices compute checksums; `auto` is where that costs less than in software
    (`offloads`)."""

    stamps: Annotated[
        Literal["software", "device"],
        Axis(
            "ports",
            "where arrival times come from: the program's poll, or the clock of DPDK's device",
            followed_by=("engine",),
            later=True,
        ),
    ] = "software"
    """The source of the arrival times of received frames."""

    switch_cores: Annotated[
        int | Literal["auto"],
        Axis(
            "switch",
            "CPUs of a polling switch (auto: 1), or CPUs for the packet work of a kernel switch",
            followed_by=("switch",),
            blame_rank=2,
            values=f"`auto`, number, 1 to {CORES_MAX}",
            parse=parse_cores,
            asked_as="where",
            used=1,
        ),
    ] = "auto"
    """CPUs of the switch; `auto` is 1 for a polling switch."""

    queues: Annotated[
        int,
        Axis(
            "ports",
            "queue pairs per port",
            followed_by=("switch", "engine"),
            blame_rank=1,
            tries=(2, 4),
        ),
    ] = Field(1, ge=1, le=16)
    """Queue pairs per port: a receive queue and a transmit queue."""

    function_cores: Annotated[
        int,
        Axis(
            "ports",
            "CPUs per sender, receiver and forwarder of the traffic program, with a queue per CPU",
            followed_by=("engine",),
            blame_rank=1,
            later=True,
        ),
    ] = Field(1, ge=1, le=16)
    """CPUs per sender, receiver and forwarder, with separate queues."""

    descriptors: Annotated[
        int | None,
        Axis(
            "ports",
            "ring size: the length of a queue",
            followed_by=("engine",),
            unit="frames",
            tries=(256, 512, 2048, 4096),
        ),
    ] = Field(None, ge=64, le=32768)
    """The length of a queue, in frames; None for the default of its program."""

    rx_affinity: Annotated[
        Literal["auto", "fixed"],
        Axis(
            "switch",
            "receive queues on CPUs of the switch: assigned by the switch (auto), or pinned "
            "round-robin (fixed)",
            followed_by=("switch",),
            blame_rank=1,
            later=True,
        ),
    ] = "auto"
    """Whether the switch may move its receive queues between its CPUs."""

    switch_burst: Annotated[
        int | None,
        Axis(
            "switch",
            "burst size of the switch: the most frames that it takes from a port at once",
            followed_by=("switch",),
            blame_rank=1,
            unit="frames",
            tries=(8, 16, 64, 128, 256),
            later=True,
        ),
    ] = Field(None, ge=1, le=512)
    """The burst size of the switch, in frames; None for its default."""

    buffers: Annotated[
        int | None,
        Axis(
            "switch",
            "size of the switch's buffer pool",
            followed_by=("switch",),
            blame_rank=1,
            unit="frames",
            tries=(8192, 32768, 65536, 131072),
            later=True,
        ),
    ] = Field(None, ge=1024, le=1048576)
    """The size of the switch's buffer pool, in frames; None for its default."""

    ip_version: Annotated[
        Literal["4", "6"],
        Axis(
            "path",
            "IP version of the frames (of the inner frames in a tunnel)",
            parse=str,
            asked_as="load",
            later=True,
        ),
    ] = "4"
    """The IP version of every frame, as text; in a tunnel, the version of the inner frame."""

    encapsulation: Annotated[
        Literal["auto", "none", "vlan", "vxlan", "vxlan6"],
        Axis(
            "path",
            "encapsulation of the frames: a VLAN tag (auto: if --vlan is given), a VXLAN tunnel "
            "over IPv4 (vxlan) or IPv6 (vxlan6)",
            asked_as="load",
            later=True,
        ),
    ] = "auto"
    """The encapsulation of every frame; `auto` is a VLAN tag if `vlan` has an id, else none."""

    flow_order: Annotated[
        Literal["sequential", "random", "zipf"],
        Axis(
            "path",
            "how a sender picks the flow of the next frame: round-robin (sequential), uniformly "
            "random, or Zipf-distributed (flow k has weight 1/k)",
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
    """The inter-arrival pattern at a given rate; no effect at `max`."""

    frame_size: Annotated[
        int | str,
        Axis(
            "load",
            "frame size with the FCS, a mix (imix, genome:aaafg), or the sizes of rfc2544",
            unit="bytes",
            parse=parse_frame_size,
            sweeps={"rfc2544": tuple(map(str, RFC2544_SIZES))},
            values="`64` to `9600`, `imix`, `imix:csit`, `imix:vsperf`, `genome:aaafg`; `rfc2544`: "
            "seven sizes",
            json_name="frame_bytes",
            heading="bytes",
            own_column=True,
            used=2,
        ),
    ] = 64
    """Bytes with the FCS, or a mix: `imix`, `imix:csit`, `imix:vsperf`, or the letters of a genome
    (RFC 6985)."""

    rate: Annotated[
        str,
        Axis(
            "load",
            "offered load per sender: max, 10M, 500kpps, 2.5Gbps, 50% (of R+; up to 1000%) [max; "
            "for outage 10% of the smallest R+ of the switches]",
            unit="pps",
            parse=parse_rate,
            as_written=True,
            values="`max`, `1000`, `10M`, `500kpps`, `2.5Gbps`, `50%`",
            json_number="rate_pps",
            used=2,
        ),
    ] = "max"
    """The offered load per sender, as written; `rate_pps` is its value in frames per second."""

    line_rate: Annotated[
        str | None,
        Axis(
            "load",
            "speed of a sender's link, an upper limit of its rate: 10Gbps",
            unit="pps",
            parse=parse_line_rate,
            as_written=True,
            values="`10Gbps`, `1M`",
            later=True,
        ),
    ] = None
    """The speed of a sender's link, as written; None for no limit."""

    burst: Annotated[
        int,
        Axis(
            "load",
            "frames that a sender sends at once [32; 1 for latency and outage]",
            unit="frames",
            left_out=1,
            used=1,
        ),
    ] = Field(default_factory=_usual_burst, ge=1, le=4096)
    """The frames that a sender hands to its engine at once."""

    pairs: Annotated[
        int, Axis("path", "pairs of a sender and a receiver", blame_rank=5, used=1)
    ] = Field(1, ge=1, le=64)
    """Pairs of a sender and a receiver, which share the switch."""

    chain: Annotated[
        int,
        Axis(
            "chain",
            "functions in a chain, in loopback and p2v (where the last one receives)",
            blame_rank=4,
            used=2,
        ),
    ] = Field(1, ge=1, le=64)
    """The length of a chain: functions in series."""

    chains: Annotated[int, Axis("chain", "parallel chains, in loopback", blame_rank=5)] = Field(
        1, ge=1, le=64
    )
    """Parallel chains between the same two ends, with separate functions."""

    flows: Annotated[
        int,
        Axis(
            "path",
            "flows per sender: 64, 10k, 1M",
            parse=parse_count,
            values=f"`1` to `{FLOWS_MAX // 1_000_000}M`, `10k`",
            asked_as="load",
        ),
    ] = Field(1, ge=1, le=FLOWS_MAX)
    """Flows per sender, which differ in the header fields that `flows_by` names."""

    flows_by: Annotated[
        Literal["mac", "ip", "port"],
        Axis("path", "the header field by which the flows of a sender differ", asked_as="load"),
    ] = "port"
    """The header field that differs between flows."""

    copies: Annotated[
        int,
        Axis(
            "path",
            "copies of every frame, for different functions or physical ports",
            followed_by=("switch",),
            blame_rank=5,
            asked_as="load",
        ),
    ] = Field(1, ge=1, le=64)
    """Receivers per frame; the switch makes the copies."""

    vlan: Annotated[
        int | None, Axis("path", "VLAN ID of every frame, or none", asked_as="load")
    ] = Field(None, ge=1, le=4094)
    """The VLAN id of every frame; None for the usual id, or no tag."""

    touch: Annotated[
        Literal["none", "header", "full"],
        Axis("load", "how much of a payload senders write and receivers check"),
    ] = "header"
    """How much of a payload senders write and receivers check."""

    placement: Annotated[
        str,
        Axis(
            "path",
            "how processes are assigned to CPUs: auto, pinned, unpinned, unpinned:switch, "
            "unpinned:function, shared-process, or CPUs (0+2-5)",
            values="`auto`, `pinned`, `unpinned`, `unpinned:switch`, `unpinned:function`, "
            "`shared-process`, CPUs: `0+2-5`",
            asked_as="where",
            used=2,
        ),
    ] = "auto"
    """The policy that assigns processes to CPUs, or a list of CPUs."""

    cpu_limit: Annotated[
        str | None,
        Axis(
            "functions",
            "CPU limit of the switch or of every function, in percent of a core: 50, function:12.5",
            unit="percent of a core",
            parse=_limit,
            values="`50`, `switch:50`, `function:12.5`",
            used=2,
        ),
    ] = None
    """A CPU limit by cgroup, in percent of a core; None for no limit."""

    noise: Annotated[
        str | None,
        Axis(
            "load",
            "background load during the test: cpu, memory, cache, io, web; cpu:0+1 sets its CPUs",
            values="`cpu`, `web:0+1`, `cache:switch`, `io:functions`",
        ),
    ] = None
    """The background load during trials, and its CPUs; None for no load."""

    event: Annotated[
        str | None,
        Axis(
            "path",
            f"what happens in a trial, as KIND or KIND@TIME: {', '.join(KINDS)} (load:50%: the "
            "traffic, all others: the switch); several are joined by +",
            parse=written_events,
            values="`restart`, `kill@2s`, `pause@1+port-down@3`, `upgrade:NAME@26.10`, "
            "`load:50%@1+load:100%@3`",
            later=True,
            asked_as="trial",
            used=2,
        ),
    ] = None
    """The events of every trial, with their moments in seconds; None for no event."""

    profile: Annotated[
        int | None,
        Axis(
            "method",
            "profile of all CPUs of the test by kernel function (perf record): samples per second",
            unit="samples per second",
            later=True,
        ),
    ] = Field(None, ge=1, le=10_000)
    """The samples of `perf record` per second and CPU; None for no profile."""

    search: Annotated[
        str,
        Axis(
            "method",
            "how the rate is chosen: fixed, or a search",
            table="searches",
            left_out=1,
            used=2,
        ),
    ] = "fixed"
    """The name of the search, which picks the loads of the trials."""

    loss_ratio: Annotated[
        float,
        Axis("method", "loss that pdr allows: 0.5%", parse=parse_share, values="`0.5%`, `0.005`"),
    ] = 0.005
    """The share of lost frames that search `pdr` allows."""

    precision: Annotated[
        float,
        Axis(
            "method",
            "width of the interval at which a search stops: 0.5% of the rate",
            parse=parse_share,
            values="`0.5%`, `0.005`",
        ),
        # Below this a search could reach two rates with no float between them.
    ] = Field(0.005, ge=1e-9)
    """The width of the interval at which a search stops, as a share of the rate."""

    verification: Annotated[
        str,
        Axis(
            "method",
            "what decides on a rate with loss: two of three trials (majority), one trial (none, as "
            "RFC 2544), or one lossless trial of several (tst009)",
            parse=parse_verification,
            as_written=True,
            values="`majority`, `none`, `tst009`, `tst009:3`, `tst009:3:50%`",
            later=True,
        ),
    ] = "majority"
    """How `ndr`, `pdr` and `back-to-back` repeat a trial with loss, as written: `tst009:R:Z` makes
    at most R trials, and repeats none with more loss than Z."""

    exceed_ratio: Annotated[
        float,
        Axis(
            "method",
            "share of the time at a load that may be lossier than a goal of mlr allows: 50%",
            parse=parse_exceed_ratio,
            values="`0`, `50%`, `0.5`",
            later=True,
        ),
    ] = Field(0.5, ge=0, lt=1)
    """The share of the time at a load that may lose more than a goal of search `mlr` allows."""

    duration_sum: Annotated[
        float | None,
        Axis(
            "method",
            "time of the trials that decide on a load in mlr: 120s; default: three trials",
            unit="s",
            parse=parse_duration,
            values="as `duration`",
            json_name="duration_sum_s",
            later=True,
        ),
    ] = Field(None, gt=0, le=86400)
    """The total time of the trials that decide on a load of search `mlr`, in seconds; None for
    three trials."""

    loads: Annotated[
        str,
        Axis(
            "method",
            "loads of search latency-at-load, in percent of R+",
            unit="percent of R+",
            parse=parse_shares,
            as_written=True,
            values="`10,50,99`",
            undivided=True,
        ),
    ] = "10,50,99"
    """The loads at which search `latency-at-load` measures, as written."""

    duration: Annotated[
        float,
        Axis(
            "method",
            "length of a trial: 2, 500ms, 1min; default for several switches: 0.3 with 20 repeats",
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
    """The measured phase of a trial, in seconds."""

    warmup: Annotated[
        float,
        Axis(
            "method",
            "warm-up before a trial, not counted; 0.5 or more for the first trial in a comparison",
            unit="s",
            parse=parse_duration,
            compared=0.05,
            values="as `duration`, or `0`",
            json_name="warmup_s",
            left_out=3,
            used=1,
        ),
    ] = Field(0.5, ge=0, le=3600)
    """The warm-up before every trial, in seconds; its frames do not count."""

    ramp: Annotated[
        float,
        Axis(
            "method",
            "time before a warm-up in which the rate rises from 10 % to 100 %; no effect at max",
            unit="s",
            parse=parse_duration,
            values="as `duration`, or `0`",
            json_name="ramp_s",
            later=True,
        ),
    ] = Field(0.0, ge=0, le=3600)
    """The rise of the rate before every warm-up, in seconds; its frames do not count."""

    interval: Annotated[
        float | None,
        Axis(
            "method",
            "interval of the time series of a trial: 100ms, 5min; none for no series",
            unit="s",
            parse=parse_duration,
            values="as `duration`, from `10ms`; `none`",
            json_name="interval_s",
            later=True,
            used=1,
        ),
    ] = Field(None, ge=0.01, le=86400)
    """The intervals of a trial's time series, in seconds; None for no series."""

    residual: Annotated[
        float,
        Axis(
            "method",
            "least time that a trial waits for its last frames: until none arrives for this long "
            "(RFC 2544: 2)",
            unit="s",
            parse=parse_duration,
            values="as `duration`, or `0`",
            json_name="residual_s",
            later=True,
        ),
    ] = Field(0.0, ge=0, le=60)
    """The time without an arrival at which a trial ends, in seconds; a short time at least."""

    settle: Annotated[
        float,
        Axis(
            "method",
            "pause after a trial, for the switch to settle (RFC 2544: 5)",
            unit="s",
            parse=parse_duration,
            values="as `duration`, or `0`",
            json_name="settle_s",
            later=True,
        ),
    ] = Field(0.0, ge=0, le=60)
    """The pause after every trial, in seconds."""

    repeat: Annotated[
        int,
        Axis(
            "method",
            "trials or whole searches per test, interleaved over the tests; default for several "
            "switches: 20, or 5 if --duration is given",
            compared=20,
            apart=5,
            given=5,
            left_out=2,
            asked_as="statistics",
            used=2,
        ),
    ] = Field(1, ge=1, le=1000)
    """The number of trials of the test, or of whole searches."""

    finals: Annotated[
        int,
        Axis(
            "method",
            "confirming trials of a search at its result or at each load; bursts for back-to-back",
            later=True,
            asked_as="statistics",
        ),
    ] = Field(1, ge=1, le=1000)
    """The number of trials at the rate that a search has found, which give its figures."""

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
            "add repeats up to this number until compared switches differ or are shown to be "
            "equal; the results are checked three times at most",
            later=True,
            asked_as="statistics",
        ),
    ] = Field(None, ge=3, le=1000)
    """The most repeats of a test with an undecided comparison; None stops at `repeat`."""

    prepare: Annotated[
        str | None,
        Axis(
            "path",
            "set up the host for the run and restore it afterwards: "
            f"{', '.join(TABLE)}; {ALL} for all",
            parse=parse_preparations,
            values=f"`{ALL}`, or a list of names from [preparations](preparations.md): "
            "`governor,turbo`",
            undivided=True,
            is_list=True,
            of_campaign=True,
            later=True,
            asked_as="where",
            used=1,
        ),
    ] = None
    """The preparations of the hosts, in the order of their table; None leaves the hosts alone."""

    seed: Annotated[
        int,
        Axis(
            "method",
            "seed of the random order of tests; 0 keeps the order as written",
            of_campaign=True,
            left_out=3,
            asked_as="statistics",
        ),
    ] = Field(0, ge=0)
    """The seed that shuffles the tests and loads of a campaign; 0 keeps the order as written."""

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
    """The NICs of physical ports, at the switch and at the other end of the cable, as written."""

    @model_validator(mode="before")
    @classmethod
    def _of_outage(cls, axes: Any) -> Any:
        """Set the default rate of an outage test."""
        if isinstance(axes, dict) and axes.get("dimension") == "outage":
            return {"rate": USUAL_OUTAGE_RATE, **axes}
        return axes

    @property
    def all_events(self) -> tuple[Event, ...]:
        """Return the events of every trial, those of the load too."""
        return () if self.event is None else parse_events(self.event)

    @property
    def events(self) -> tuple[Event, ...]:
        """Return the events of every trial that happen to the switch."""
        return tuple(event for event in self.all_events if event.kind != LOAD)

    @property
    def offloads(self) -> bool:
        """Say whether devices compute checksums, if they can.

        With touch `full`, a checksum in software reads every byte of a frame. Otherwise, and in
        small frames, it costs less than what the device needs to be told."""
        if self.offload != "auto":
            return self.offload == "on"
        return self.touch == "full" and min(sizes_of(self.frame_size)) > SMALL_BYTES

    @property
    def switch_core_count(self) -> int:
        """Return the number of CPUs of a polling switch; `auto` is 1."""
        return 1 if self.switch_cores == "auto" else self.switch_cores

    @property
    def tag(self) -> int | None:
        """Return the VLAN id of every frame; None for frames without a tag."""
        return self.vlan or (VLAN_USUAL if self.encapsulation == "vlan" else None)

    @property
    def tunnel(self) -> Literal["4", "6"] | None:
        """Return the outer IP version of the tunnel; None without a tunnel."""
        versions: dict[str, Literal["4", "6"]] = {"vxlan": "4", "vxlan6": "6"}
        return versions.get(self.encapsulation)

    @property
    def outer_ip_version(self) -> Literal["4", "6"]:
        """Return the IP version that the switch sees: the outer one if frames are in a tunnel."""
        return self.tunnel or self.ip_version

    @property
    def senders(self) -> int:
        """Return the number of senders."""
        return self.pairs * self.chains * (2 if self.direction == "bi" else 1)

    @property
    def flow_numbers(self) -> int:
        """Return the number of flows of a sender that are counted separately.

        These are all flows. If there are too many, or their order is random, it is a flow per queue
        (or core), and the test's flows are its sub-flows."""
        numbered = self.flow_order == "sequential" and self.flows * self.senders <= FLOW_NUMBERS
        return self.flows if numbered else max(self.queues, self.function_cores)

    @property
    def limits(self) -> Mapping[str, float]:
        """Return the CPU limit of `switch` or `function`, in percent of a core."""
        if self.cpu_limit is None:
            return {}
        limit = parse_cpu_limit(self.cpu_limit)
        return {limit.who: limit.percent}

    @property
    def parsed_rate(self) -> Rate:
        """Return the requested rate: `max`, frames, bits, or a share of R+."""
        return parse_rate(self.rate)

    @property
    def saturates(self) -> bool:
        """Say whether some trial may offer more than the path can carry."""
        found = self.parsed_rate.is_max or self.search != "fixed"
        return self.dimension == "throughput" and found

    @property
    def rate_pps(self) -> float | None:
        """Return the frames per second of a sender; None for a share of R+, and for `max` without a
        line rate."""
        if self.parsed_rate.is_max:
            return self.line_pps
        return self.parsed_rate.per_second(mean_frame_bytes(self.frame_size))

    @property
    def line_pps(self) -> float | None:
        """Return the frames per second that a sender's link can carry; None without a limit."""
        if self.line_rate is None:
            return None
        return parse_line_rate(self.line_rate).per_second(mean_frame_bytes(self.frame_size))


AXES = axes_of(Test)
"""The records of the axes, by field name, in the order of the fields."""


def usual_values(*properties: Property) -> dict[str, Any]:
    """Return the default values of the axes with these properties, by name."""
    return {axis.name: axis.default for axis in AXES.values() if axis.of in properties}


def axes_in_key(test: Test) -> dict[str, Any]:
    """Return the axes of a test that its key contains."""
    axes = {
        name: value
        for name, value in test.model_dump(mode="json").items()
        if not (AXES[name].later and value == AXES[name].default)
    }
    # Early records wrote 1 for `auto`, so keys still do, and "1" for an explicit 1.
    cores = axes["switch_cores"]
    return {**axes, "switch_cores": {"auto": 1, 1: "1"}.get(cores, cores)}


def key_of_content(content: Mapping[str, Any]) -> str:
    """Return the hash of everything that a result depends on.

    Results with the same key belong together. Run folders and caches look results up by their key,
    so keys stay the same from version to version."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
