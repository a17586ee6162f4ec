"""The recorded and replayed cases: the run, the faults in the switch, the host or the code, and the
expected records."""

from __future__ import annotations

import signal
from contextlib import nullcontext

from replay_runs import Case
from shown import (
    Shows,
    accounted,
    astray,
    both_of,
    certain,
    clean,
    copies_lost,
    corrupted,
    delayed,
    doubled,
    doubted,
    doubted_in_all,
    dropped,
    dropped_and_doubled,
    each_flow_found,
    failed,
    flooded,
    flows_followed,
    foreign,
    in_the_ring,
    in_turn,
    interrupted,
    limited_by,
    nothing_arrived,
    of_a_share,
    overtaken,
    profiled,
    refused,
    searched,
    starved,
    stolen,
    tried_again,
    with_a_doubt,
    with_latency,
)
from switchmark.model.topology import Role
from truths import (
    FAULTS,
    FailingHost,
    GarblingHost,
    InterruptedHost,
    SiblingsHost,
    SmallPagesHost,
    StolenHost,
    ThrottledHost,
    UncountingHost,
    UnsteadyHost,
    core_of,
    falling,
    forgetful,
    hog,
    hogged,
    hogged_once,
    impatient,
    in_phase,
    killed,
    measured_phases,
    sent_by_others,
    slowed,
    too_late,
)

# --- the cases --------------------------------------------------------------------------------

UNGATED = {"gate": "off"}
MAX = {"rate": "max", "burst": "32"}
FAULTY = {"switch": "truth", "burst": "1"}
VHOST = {"engine": "dpdk", "port": "vhost-user"}
ON_THE_HOST = {"environment": "host", "switch_environment": "host"}
MEMIF = {"engine": "dpdk", "port": "memif"}


def plain(name: str, **axes: str) -> Case:
    """Return a case where nothing is wrong."""
    return Case(name=name, axes=axes, shows=accounted)


def faulty(name: str, faults: str, shows: Shows, **axes: str) -> Case:
    """Return a case of the switch `truth` that is measured without a gate."""
    parts = tuple(faults.split())
    return Case(name=name, axes=FAULTY | axes, faults=parts, shows=shows, options=UNGATED)


def at_gate(name: str, faults: str, *sentences: str, **axes: str) -> Case:
    """Return a case of the switch `truth` that the gate refuses."""
    parts = tuple(faults.split())
    return Case(name=name, axes=FAULTY | axes, faults=parts, shows=refused(*sentences))


PLAIN = (
    Case(name="linux-bridge", axes={"rate": "2k"}, shows=clean),
    Case(
        name="null",
        axes={"switch": "null", "engine": "null", "rate": "max", **ON_THE_HOST},
        shows=doubted("nothing-arrived"),
    ),
    plain("bridge-p2p-bi", scenario="p2p", direction="bi", engine="mmap", flows="4"),
    plain(
        "ip-forward-p2v-udp", switch="ip-forward", scenario="p2v", engine="udp", frame_size="128"
    ),
    plain("macvlan-v2v-bi", switch="macvlan", direction="bi", engine="raw"),
    plain("vxlan-v2p", switch="vxlan", scenario="v2p", engine="mmap", frame_size="256"),
    plain("tc-redirect-chain", switch="tc-redirect", scenario="loopback", function="forwarder"),
    plain("xdp-redirect-xdp", switch="xdp-redirect", engine="xdp"),
    plain("bridge-xdp-live", engine="xdp-live"),
    plain("ovs-udp-flows", switch="ovs", engine="udp-mmsg", flows="8"),
    plain("bridge-udp-gso", engine="udp-gso"),
    plain("bridge-mmap-gso", engine="mmap-gso"),
    Case(
        name="bridge-raw-gso-flows",
        axes={"engine": "raw-gso", "flows": "8"},
        shows=doubted("flows-in-runs"),
    ),
    plain(
        "ovs-static-bridges",
        switch="ovs",
        semantics="static",
        scenario="loopback",
        chain="2",
        function="linux-bridge",
    ),
    plain("direct-p2p", switch="direct", scenario="p2p"),
    plain("direct-memif", switch="direct", **MEMIF),
    plain("ovs-dpdk-vhost", switch="ovs-dpdk", **VHOST),
    plain("testpmd-p2p-bi", switch="testpmd", scenario="p2p", direction="bi", **VHOST),
    plain("testpmd-queues", switch="testpmd", queues="2", flows="4", **VHOST),
    plain("basicfwd-memif", switch="basicfwd", **MEMIF),
    plain("testpmd-memif", switch="testpmd", **{**MEMIF, "engine": "memif"}),
    plain("l2fwd-p2v", switch="l2fwd", scenario="p2v", **VHOST),
    plain("testpmd-chain-l2fwd", switch="testpmd", scenario="loopback", function="l2fwd", **VHOST),
    plain("bridge-lxc", environment="lxc"),
    plain("macvlan-docker", switch="macvlan", environment="docker", engine="mmap"),
    plain("ip-forward-podman", switch="ip-forward", environment="podman", engine="udp"),
    plain("testpmd-docker-memif", switch="testpmd", environment="docker", **MEMIF),
    plain("bridge-vm", environment="vm", rate="500"),
    plain("bridge-copies", copies="2"),
    plain("bridge-two-cores", function_cores="2", flows="8"),
    plain("bridge-pairs-bi", pairs="2", direction="bi", rate="2k"),
    plain(
        "tc-vlan-ip6",
        switch="tc-redirect",
        ip_version="6",
        vlan="7",
        frame_size="128",
        touch="full",
    ),
    plain(
        "tc-vxlan-flows",
        switch="tc-redirect",
        encapsulation="vxlan",
        frame_size="256",
        flows="1M",
        flow_order="random",
    ),
    plain("bridge-poisson-imix", arrivals="poisson", frame_size="imix"),
    plain("bridge-shared-process", placement="shared-process", **MAX),
    plain(
        "tc-pcap-chain",
        switch="tc-redirect",
        scenario="loopback",
        function="pcap-bridge",
        rate="1k",
    ),
)

LATENCY = {"dimension": "latency", "rate": "1k"}


CAPPED = {
    "switch": "truth",
    "burst": "1",
    "line_rate": "10M",
    "duration": "0.05",
    "warmup": "0",
    "precision": "10%",
}
CAP_PPS = 4000


def search(name: str, shows: Shows, **axes: str) -> Case:
    """Return a case of a search."""
    quick = {"rate": "max", "precision": "10%", "duration": "0.03", "warmup": "0", "touch": "none"}
    return Case(name=f"search-{name}", axes={**quick, "search": name, **axes}, shows=shows)


TWO_CORES = {"function_cores": "2", "flows": "8", "duration": "0.2"}
ALL_FAULTS = " ".join(f"{fault} {period}" for fault, period in FAULTS.items())
CALIBRATED = {"calibrate": "auto"}
SATURATED = {**MAX, "duration": "0.2", "warmup": "0.05"}

FAULTS_OF_SWITCHES = (
    faulty("drop", "--drop 10", both_of(dropped, limited_by("switch"))),
    faulty("duplicate", "--duplicate 10", doubled),
    faulty("drop-and-duplicate", "--drop 10 --duplicate 7", dropped_and_doubled),
    faulty("swap", "--swap 10", overtaken, rate="5010"),
    faulty("corrupt", "--corrupt 10", corrupted),
    faulty("stray", "--stray 10", astray, pairs="2", rate="3k"),
    faulty("flows-on-two-cores", "--drop 10 --duplicate 7", flows_followed, **TWO_CORES),
    faulty("flows-mixed", "--spread 3 --duplicate 7 --drop 10", flows_followed, **TWO_CORES),
    faulty(
        "faults-ip6",
        ALL_FAULTS,
        each_flow_found,
        ip_version="6",
        frame_size="84",
        flows="5",
        duration="0.2",
    ),
    faulty(
        "faults-vxlan",
        ALL_FAULTS,
        each_flow_found,
        encapsulation="vxlan",
        frame_size="114",
        flows="5",
        duration="0.2",
        touch="full",
    ),
    faulty(
        "faults-vhost",
        ALL_FAULTS,
        each_flow_found,
        flows="4",
        duration="0.2",
        **(VHOST | {"switch": "truth-dpdk"}),
    ),
    faulty(
        "faults-memif",
        ALL_FAULTS,
        each_flow_found,
        flows="4",
        duration="0.2",
        **(MEMIF | {"switch": "truth-dpdk"}),
    ),
    faulty("delay", "--delay-us 20000", delayed, rate="2k"),
    faulty("cap", f"--cap {CAP_PPS}", both_of(limited_by("switch")), rate="10k", duration="0.2"),
    faulty("drop-all", "--drop 1", nothing_arrived),
)

FAULTS_AT_THE_GATE = (
    at_gate("gate-drop", "--drop 10", "frames did not arrive: [0-9]+ inside switch"),
    at_gate(
        "gate-duplicate",
        "--duplicate 10",
        "[0-9]+ frames arrived more than once$",
        "[0-9]+ frames entered the switch and [0-9]+ left it$",
    ),
    at_gate("gate-swap", "--swap 10", "frames arrived after a later one$"),
    at_gate("gate-corrupt", "--corrupt 10", "[0-9]+ frames arrived with other bytes$"),
    at_gate(
        "gate-stray", "--stray 10", "frames arrived at a port that they were not for$", pairs="2"
    ),
    at_gate("gate-ttl", "--ttl 10", "[0-9]+ frames of f0-f1 arrived with TTL 63 instead of 64$"),
    at_gate(
        "gate-mac",
        "--mac 10",
        "[0-9]+ frames .* source MAC 02:53:4d:00:00:01 instead of 02:53:4d:00:00:00$",
        touch="none",
    ),
    at_gate(
        "gate-checksum", "--checksum 10", "[0-9]+ frames .* with a wrong checksum of the IP header$"
    ),
    Case(
        name="gate-router",
        axes=FAULTY,
        expected={"routed": 1, "seen_src_mac": "02:52:4d:00:00:01"},
        shows=refused(
            "TTL 64 instead of 63", "source MAC 02:53:4d:00:00:00 instead of 02:52:4d:00:00:01"
        ),
    ),
    Case(
        name="gate-doubt",
        axes=FAULTY,
        faults=("--drop", "10"),
        options={"gate": "doubt"},
        shows=with_a_doubt,
    ),
    Case(
        name="gate-starved",
        axes={"rate": "1k"},
        disturb=in_phase(
            lambda trials, _, number: (
                hog(core_of(trials, "f0"), alone=True) if number < 2 else nullcontext()
            )
        ),
        shows=starved,
    ),
)

WHO_WAS_THE_LIMIT = (
    Case(
        name="copies-lost",
        axes={**SATURATED, "copies": "2", "warmup": "0"},
        code=slowed(Role.RECEIVER, 50_000),
        shows=copies_lost,
    ),
    Case(
        name="slow-sender",
        axes={"touch": "none", **SATURATED},
        options=CALIBRATED,
        code=slowed(Role.SENDER, 20_000),
        shows=limited_by("sender"),
    ),
    Case(
        name="slow-receiver",
        axes={"touch": "none", **SATURATED, "warmup": "0"},
        options=CALIBRATED,
        code=slowed(Role.RECEIVER, 50_000),
        shows=in_the_ring,
    ),
    Case(
        name="slow-function",
        axes={"touch": "none", **SATURATED, "scenario": "loopback", "cpu_limit": "function:10"},
        options=CALIBRATED,
        shows=limited_by("function"),
    ),
    Case(
        name="slow-switch",
        axes={
            **SATURATED,
            "switch": "testpmd",
            **VHOST,
            "cpu_limit": "switch:30",
            "duration": "0.5",
        },
        options=CALIBRATED,
        shows=limited_by("switch"),
    ),
    Case(
        name="one-core",
        axes={**SATURATED, "switch": "truth", "placement": "0"},
        options={**UNGATED, **CALIBRATED},
        shows=limited_by("switch"),
    ),
)

FAULTS_OF_HOSTS = (
    Case(
        name="busy-host",
        axes={**FAULTY, **SATURATED, "duration": "0.4"},
        options=UNGATED,
        disturb=hogged("switch"),
        shows=doubted("host-busy", verdict="host"),
    ),
    Case(
        name="busy-host-limited",
        axes={**FAULTY, **SATURATED, "duration": "0.5", "cpu_limit": "switch:90"},
        options=UNGATED,
        disturb=hogged("switch"),
        shows=doubted("host-busy", verdict="host"),
    ),
    Case(
        name="tried-again",
        axes={**FAULTY, "warmup": "0"},
        options={**UNGATED, "rerun": 4},
        disturb=hogged_once("switch"),
        shows=tried_again,
    ),
    Case(
        name="outage",
        axes={"dimension": "outage", "event": "restart@0.3", "rate": "2k", "duration": "0.8"},
        shows=interrupted,
    ),
    Case(
        name="stolen-cpu",
        axes=FAULTY,
        options={**UNGATED, "rerun": 1},
        host=StolenHost,
        shows=stolen,
    ),
    Case(name="interrupts", axes={"rate": "2k"}, host=InterruptedHost, shows=doubted("interrupts")),
    Case(
        name="frequency",
        axes={"rate": "2k"},
        host=ThrottledHost,
        shows=doubted("frequency-changed"),
    ),
    Case(name="siblings", axes={"rate": "2k"}, host=SiblingsHost, shows=doubted("sibling-busy")),
    Case(
        name="small-pages",
        axes={"switch": "testpmd", **VHOST},
        host=SmallPagesHost,
        shows=doubted("no-hugepages"),
    ),
    Case(
        name="foreign-frames",
        axes=FAULTY,
        options=UNGATED,
        disturb=measured_phases(sent_by_others),
        shows=foreign,
    ),
    Case(
        name="started-late",
        axes={"rate": "2k", "warmup": "0"},
        options=UNGATED,
        code=too_late,
        shows=doubted("started-late"),
    ),
    Case(
        name="uncertain",
        axes={
            **SATURATED,
            "duration": "0.05",
            "warmup": "0",
            "until_certain": "0.0001%",
            "touch": "none",
        },
        code=impatient,
        shows=doubted_in_all("uncertain"),
    ),
    Case(
        name="drifting",
        axes={"rate": "2k", "warmup": "0"},
        code=falling,
        shows=doubted_in_all("drifting"),
    ),
    Case(
        name="flooded",
        axes={"pairs": "2", "engine": "mmap"},
        options=UNGATED,
        code=forgetful,
        shows=flooded,
    ),
    Case(
        name="dead-switch",
        axes=FAULTY,
        options=UNGATED,
        disturb=measured_phases(lambda trials: killed(trials, "truth-switch", signal.SIGKILL)),
        shows=failed("^switch truth died during the trial"),
    ),
    Case(
        name="stopped-switch",
        axes=FAULTY,
        options=UNGATED,
        disturb=measured_phases(lambda trials: killed(trials, "truth-switch", signal.SIGSTOP)),
        shows=failed("is in state T: it got SIGSTOP"),
    ),
    Case(
        name="dead-sender",
        axes=FAULTY,
        options=UNGATED,
        disturb=measured_phases(lambda trials: killed(trials, "switchmark-traf", signal.SIGKILL)),
        shows=failed("^the traffic program of .* was killed by signal 9"),
    ),
    Case(
        name="failing-step",
        axes={"rate": "1k"},
        host=lambda: FailingHost("bridge"),
        shows=failed("Operation not supported"),
    ),
    Case(
        name="unsteady-clock",
        axes={"rate": "2k"},
        host=UnsteadyHost,
        shows=doubted("clock"),
    ),
    Case(
        name="past-the-switch",
        axes={"rate": "2k"},
        options=UNGATED,
        host=UncountingHost,
        shows=doubted("past-switch"),
    ),
    Case(
        name="gate-past-the-switch",
        axes={"rate": "2k"},
        host=UncountingHost,
        shows=refused("frames arrived, and .* counted 0: they went past the switch"),
    ),
    Case(
        name="garbled-counters",
        axes={"rate": "1k"},
        host=GarblingHost,
        shows=failed("^the counters of .* cannot be read|not JSON|Expecting"),
    ),
)

SEARCHES = (
    Case(name="search-fixed", axes={"rate": "2k", "repeat": "3"}, shows=certain),
    Case(
        name="search-max",
        axes={"touch": "none", **SATURATED, "search": "max", "repeat": "3", "duration": "0.05"},
        options=CALIBRATED,
        shows=certain,
    ),
    Case(
        name="search-max-slowed",
        axes={"touch": "none", **SATURATED, "search": "max", "repeat": "3", "duration": "0.05"},
        code=slowed(Role.SENDER, 20_000),
        shows=certain,
    ),
    search("ndr", searched("ndr")),
    search("pdr", searched("pdr")),
    search("mlr", searched("mlr")),
    Case(
        name="search-latency-at-load",
        axes={**CAPPED, "rate": "max", "search": "latency-at-load", "loads": "50,90"},
        faults=("--cap", str(CAP_PPS)),
        options=UNGATED,
        shows=searched("latency-at-load"),
    ),
    Case(
        name="search-frame-loss",
        axes={**CAPPED, "rate": "20k", "duration": "0.2", "search": "frame-loss"},
        faults=("--cap", str(CAP_PPS)),
        options=UNGATED,
        shows=searched("frame-loss"),
    ),
    Case(
        name="search-back-to-back",
        axes={
            "touch": "none",
            **FAULTY,
            "rate": "max",
            "search": "back-to-back",
            "duration": "0.05",
        },
        faults=("--cap", str(CAP_PPS)),
        options=UNGATED,
        shows=searched("back-to-back"),
    ),
    Case(
        name="share-of-r-plus",
        axes={"touch": "none", "rate": "50%", "duration": "0.1"},
        options=CALIBRATED,
        shows=of_a_share,
    ),
    Case(
        name="turns-idle",
        axes={
            "touch": "none",
            "switch": "linux-bridge,macvlan",
            **MAX,
            "search": "max",
            "repeat": "3",
            "duration": "0.05",
        },
        shows=in_turn("idle"),
    ),
    Case(
        name="turns-idle-again",
        axes={
            "touch": "none",
            "switch": "linux-bridge,macvlan",
            **MAX,
            "search": "max",
            "repeat": "3",
            "duration": "0.05",
        },
        shows=in_turn("idle"),
    ),
    Case(
        name="turns-frozen",
        axes={
            "touch": "none",
            "switch": "testpmd,l2fwd",
            **MAX,
            **VHOST,
            "search": "max",
            "repeat": "3",
            "duration": "0.05",
        },
        shows=in_turn("frozen"),
    ),
)

MORE = (
    Case(
        name="latency",
        axes={**LATENCY, "duration": "0.2"},
        options=CALIBRATED,
        shows=with_latency("rtt"),
    ),
    Case(
        name="latency-dpdk",
        axes={**LATENCY, "switch": "testpmd", **VHOST},
        shows=with_latency("rtt"),
    ),
    Case(name="noise", axes={"noise": "cpu:0", "rate": "2k"}, shows=accounted),
    Case(name="profile", axes={**SATURATED, "profile": "99"}, shows=profiled),
    Case(
        name="profiled",
        axes={"rate": "2k", "profile": "9999"},
        shows=doubted("profiled"),
    ),
    Case(name="captured", axes={"rate": "1k"}, options={"capture": 5}, shows=doubted("captured")),
    Case(
        name="refused",
        axes={"switch": "macvlan", "environment": "docker", "image": "none:such"},
        shows=failed("docker", status="refused"),
    ),
)

CASES: tuple[Case, ...] = (
    *PLAIN,
    *MORE,
    *SEARCHES,
    *FAULTS_OF_SWITCHES,
    *FAULTS_AT_THE_GATE,
    *WHO_WAS_THE_LIMIT,
    *FAULTS_OF_HOSTS,
)
