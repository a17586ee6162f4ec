"""Stands in for kubectl and a cluster of two nodes: a pod is a network namespace.

It takes the commands that `switchmark pods` runs and refuses all others, and manifests that are not
as the API documents them. Pods of a node are on a bridge, and a router joins the nodes. A process
in a pod is root without capabilities. `KUBECTL_STATE` is the folder of what it keeps.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

STATE = Path(os.environ.get("KUBECTL_STATE", "/nonexistent"))
NODES = ("node-1", "node-2")
ROUTER = "kc-router"


def fail(message: str) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(1)


def run(*argv: str) -> None:
    subprocess.run(argv, check=True)


def ensure_cluster() -> None:
    """Make the router, with a bridge for each node."""
    if Path(f"/run/netns/{ROUTER}").exists():
        return
    run("ip", "netns", "add", ROUTER)
    inside = ("ip", "netns", "exec", ROUTER)
    run(*inside, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
    for number, node in enumerate(NODES, 1):
        run("ip", "-n", ROUTER, "link", "add", node, "type", "bridge")
        run("ip", "-n", ROUTER, "address", "add", f"10.244.{number}.1/24", "dev", node)
        run("ip", "-n", ROUTER, "link", "set", node, "up")


def pods() -> dict[str, dict[str, Any]]:
    return {file.stem: json.loads(file.read_text()) for file in STATE.glob("*.json")}


def node_of(spec: dict[str, Any]) -> str:
    """Return the node that a scheduler gives a pod."""
    if "nodeName" in spec:
        return str(spec["nodeName"])
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {})
    avoided = {
        value
        for term in required.get("nodeSelectorTerms", [])
        for field in term["matchFields"]
        if (field["key"], field["operator"]) == ("metadata.name", "NotIn")
        for value in field["values"]
    }
    return next(node for node in NODES if node not in avoided)


def create(arguments: list[str]) -> None:
    if arguments != ["-f", "-"]:
        fail(f"unknown arguments of create: {arguments}")
    manifest = json.load(sys.stdin)
    if (manifest["apiVersion"], manifest["kind"]) != ("v1", "Pod"):
        fail("no pod")
    name, node = manifest["metadata"]["name"], node_of(manifest["spec"])
    if name in pods():
        fail(f'pods "{name}" already exists')
    if node not in NODES:
        fail(f'node "{node}" not found')
    ensure_cluster()
    number = NODES.index(node) + 1
    index = 10 + len(pods())
    end, near = f"kc{os.getpid()}a", f"kc{index}"
    run("ip", "netns", "add", name)
    run("ip", "-n", name, "link", "set", "lo", "up")
    run("ip", "-n", name, *("link", "add", "eth0", "type", "veth", "peer", "name", end))
    run("ip", "-n", name, "link", "set", end, "netns", ROUTER, "name", near)
    run("ip", "-n", ROUTER, "link", "set", near, "master", node, "up")
    run("ip", "-n", name, "address", "add", f"10.244.{number}.{index}/24", "dev", "eth0")
    run("ip", "-n", name, "link", "set", "eth0", "up")
    run("ip", "-n", name, "route", "add", "default", "via", f"10.244.{number}.1")
    (container,) = manifest["spec"]["containers"]
    kept = {"node": node, "container": container["name"], "manifest": manifest}
    (STATE / f"{name}.json").write_text(json.dumps(kept))
    print(f"pod/{name} created")


def auth(arguments: list[str]) -> None:
    if arguments != ["can-i", "create", "pods"]:
        fail(f"unknown arguments of auth: {arguments}")
    if os.environ.get("KUBECTL_FORBIDS"):
        print("no")
        sys.exit(1)
    print("yes")


def wait(arguments: list[str]) -> None:
    condition, pod, limit = arguments
    if condition != "--for=condition=Ready" or not limit.startswith("--timeout="):
        fail(f"unknown arguments of wait: {arguments}")
    if pod.removeprefix("pod/") not in pods():
        fail(f"{pod} not found")


def get(arguments: list[str]) -> None:
    kind, name, *output = arguments
    if kind != "pod" or output != ["-o", "jsonpath={.spec.nodeName}"]:
        fail(f"unknown arguments of get: {arguments}")
    print(pods()[name]["node"], end="")


def execute(arguments: list[str]) -> NoReturn:
    stdin, name, option, container, end, *command = arguments
    if (stdin, option, end) != ("-i", "--container", "--"):
        fail(f"unknown arguments of exec: {arguments}")
    if name not in pods():
        fail(f'pods "{name}" not found')
    if pods()[name]["container"] != container:
        fail(f"container {container} not found in pod {name}")
    home = STATE / name
    home.mkdir(exist_ok=True)
    variables = (f"PATH={os.environ['PATH']}", f"HOME={home}")
    bare = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "env", "-i", *variables)
    argv = ("ip", "netns", "exec", name, *bare, *command)
    os.execvp(argv[0], argv)


def delete(arguments: list[str]) -> None:
    kind, name, *options = arguments
    known = {"--ignore-not-found", "--grace-period=1", "--wait=true", "--timeout=60s"}
    if kind != "pod" or not {*options} <= known:
        fail(f"unknown arguments of delete: {arguments}")
    if name not in pods():
        if "--ignore-not-found" not in options:
            fail(f'pods "{name}" not found')
        return
    found = subprocess.run(("ip", "netns", "pids", name), capture_output=True, text=True)
    for pid in found.stdout.split():
        subprocess.run(("kill", "-KILL", pid), stderr=subprocess.DEVNULL)
    run("ip", "netns", "del", name)
    (STATE / f"{name}.json").unlink()
    if not pods():
        run("ip", "netns", "del", ROUTER)
    print(f'pod "{name}" deleted')


def main(arguments: list[str]) -> None:
    with (STATE / "calls").open("a") as calls:
        calls.write(json.dumps(arguments) + "\n")
    while arguments and arguments[0] in ("--kubeconfig", "--context", "--namespace"):
        arguments = arguments[2:]
    commands = {"auth": auth, "create": create, "wait": wait, "get": get, "exec": execute}
    commands["delete"] = delete
    command, *rest = arguments
    if command not in commands:
        fail(f'unknown command "{command}"')
    commands[command](rest)


if __name__ == "__main__":
    main(sys.argv[1:])
