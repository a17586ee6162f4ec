"""A web server under load makes the noise of the dissertation of 2017: nginx and ab.

Both are in a network namespace of the run: not a frame of theirs leaves its loopback.
"""

from __future__ import annotations

import re
from signal import SIGTERM

from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.environments.base import Needs
from switchmark.errors import Unavailable
from switchmark.machine.host import Host
from switchmark.model.plan import Check, Node, Plan, Run, Spawn, Wait, Write
from switchmark.model.version import Version
from switchmark.noises.base import Noise, Site, on_cpus

_URL = "http://127.0.0.1:8080/"
_CLIENTS = 100  # at once, as the Apache benchmark of the Phoronix suite has them
_REQUESTS_A_SECOND = 50_000  # more than are answered
_REQUESTS_MAX = 50_000_000  # ab has 32 bytes for each
_CONFIG = """\
daemon off;
master_process off;
pid "{folder}/pid";
error_log stderr error;
events {{ worker_connections 512; }}
http {{
  access_log off;
  client_body_temp_path "{folder}/body";
  proxy_temp_path "{folder}/proxy";
  fastcgi_temp_path "{folder}/fastcgi";
  uwsgi_temp_path "{folder}/uwsgi";
  scgi_temp_path "{folder}/scgi";
  server {{
    listen 127.0.0.1:8080;
    location / {{ default_type text/plain; return 200 "{page}"; }}
  }}
}}
"""
_PAGE = "0123456789abcdef" * 64


class Web(Noise):
    """A process of ab asks nginx for one page again and again.

    An nginx with workers writes its title over its environment, and with it over the run's mark:
    this one has none.
    """

    name = "web"
    summary = "a web server under load"

    def probe(self, host: Host) -> Version:
        """Return the version of nginx."""
        try:
            done = host.run(("nginx", "-v"))
        except Unavailable as missing:
            raise Unavailable(
                "nginx is not installed", hint="apt-get install --no-install-recommends nginx-light"
            ) from missing
        try:
            host.run(("ab", "-V"))
        except Unavailable as missing:
            raise Unavailable("ab is not installed", hint="apt-get install apache2-utils") from (
                missing
            )
        match = re.search(rb"nginx/(\S+)", done.stderr)
        return Version(match[1].decode() if match else "-", verified="verified")

    def start(self, site: Site) -> Plan:
        node = Node(f"{site.prefix}-web", "netns")
        folder = f"{site.run_dir}/web"
        config = f"{folder}/nginx.conf"
        server = f"{site.prefix}-nginx"
        text = _CONFIG.format(folder=folder, page=_PAGE)
        requests = min(_REQUESTS_MAX, round(site.seconds * _REQUESTS_A_SECOND))
        return (
            *ENVIRONMENTS["netns"].create(node, Needs(run_dir=site.run_dir)),
            Run("its loopback", ("ip", "link", "set", "lo", "up"), at=node),
            Run("a place for its files", ("mkdir", "-p", folder), undo=("rm", "-rf", folder)),
            Write("what it serves", config, text.encode()),
            Spawn(
                "noise: a web server",
                server,
                on_cpus(site, ("nginx", "-e", "stderr", "-p", folder, "-c", config)),
                at=node,
                stop=(SIGTERM, 5.0),
            ),
            Wait(
                "the web server answers",
                Check(("ab", "-q", "-n", "1", _URL), at=node),
                unless_dead=server,
            ),
            Spawn(
                "noise: its clients",
                f"{site.prefix}-ab",
                on_cpus(site, ("ab", "-q", "-r", "-n", str(requests), "-c", str(_CLIENTS), _URL)),
                at=node,
                stop=(SIGTERM, 2.0),
            ),
        )


WEB = Web()
