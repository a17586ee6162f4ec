"""The command `pods`: it measures the network between pods of a Kubernetes cluster."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click

from switchmark.cli.arguments import PATH, Measuring, out, run_name
from switchmark.cli.help import GroupedCommand
from switchmark.cli.options import with_axes, with_host_file, with_measuring
from switchmark.cli.running import (
    HostBench,
    campaign_of,
    check_new,
    checked_options,
    measure,
    status_of,
)

_BY_PODS = {
    "scenario": "v2v",
    "locality": "remote",
    "environment": "host",
    "switch_environment": "host",
}
"""The axes of every test between pods."""


@click.command("pods", cls=GroupedCommand)
@click.option("--kubeconfig", metavar="FILE", type=PATH, help="as for kubectl [its default]")
@click.option("--context", metavar="NAME", help="a context of that file [the current one]")
@click.option("--namespace", metavar="NAME", help="where to make the pods [that of the context]")
@click.option("--node", metavar="NAME", help="the node of the sender [the cluster chooses]")
@click.option(
    "--receiver",
    "receivers",
    metavar="PLACE",
    multiple=True,
    type=click.Choice(["same-node", "other-node"]),
    help="measure to a pod there only: same-node or other-node [both]",
)
@out
@run_name
@with_measuring
@with_axes
@with_host_file
def pods(
    axes: dict[str, str],
    kubeconfig: Path | None,
    context: str | None,
    namespace: str | None,
    node: str | None,
    receivers: tuple[str, ...],
    out: Path,
    name: str | None,
    how: Measuring,
) -> int:
    """Measure the network between pods of a Kubernetes cluster, which kubectl reaches.

    It makes a pod that sends, a pod on the same node and a pod on another node, measures by UDP
    sockets between them, and deletes the pods. --image is the image of the pods
    [debian:stable-slim]. Not verified on a cluster: tests run it with a stand-in of kubectl.
    """
    from dataclasses import replace

    from switchmark.errors import UsageError
    from switchmark.hosts.hosts import Hosts
    from switchmark.hosts.pod import PodHost
    from switchmark.model.test import AXES
    from switchmark.runs.own_run import OwnRun
    from switchmark.runs.pods import IMAGE, Cluster, Pods, hosts_axes
    from switchmark.switches import TABLE as SWITCHES

    if fixed := [AXES[axis].option for axis in ("switch", "hosts", *_BY_PODS) if axis in axes]:
        raise UsageError(f"pods decides {', '.join(fixed)} itself")
    image = axes.pop("image", IMAGE)
    cluster = Cluster(kubeconfig, context, namespace, image, node)
    if receivers:
        cluster = replace(cluster, receivers=receivers)
    show, options = checked_options(replace(how, calibrate="never"))
    check_new(out, name)
    (switch,) = (name for name, each in SWITCHES.items() if each.joins == PodHost.joined_by)
    asked = {"engine": "udp-mmsg", **axes, **_BY_PODS, "switch": switch}
    with (
        tempfile.TemporaryDirectory() as logs,
        Pods(cluster, Path(logs)) as made,
        Hosts(OwnRun, made.hosts) as hosts,
    ):
        campaigns = [
            campaign_of(None, {**asked, "hosts": pair}, hosts) for pair in hosts_axes(cluster)
        ]
        tests = tuple(test for campaign in campaigns for test in campaign.tests)
        campaign = replace(campaigns[0], tests=tests)
        bench = HostBench(hosts, show.quiet)
        records = measure(bench, bench.new_run(campaign, out, name), show, options)
    for failure in made.left:
        print(failure, file=sys.stderr)
    return status_of(records, how.strict)
