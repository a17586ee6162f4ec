"""A web server under load, the noise of the dissertation of 2017: nginx and ab.

Both run in a network namespace of the run: all their frames stay on its loopback interface.
"""

from __future__ import annotations

from signal import SIGTERM

from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.environments.base import Needs
from switchmark.hosts.base import Host
from switchmark.hosts.programs import probe_version, require_programs
from switchmark.model.plan import Check, Node, Plan, Run, Spawn, Wait, Write
from switchmark.model.version import Version
from switchmark.noises.base import Noise, Site, on_cpus

_URL = "http://127.0.0.1:8080/"
_CLIENTS = 100  # concurrent, as the Apache benchmark of the Phoronix suite sets it
_REQUESTS = 1_000_000  # per ab process, which needs 32 bytes per request: some twenty seconds
_AGAIN = 'while "$@" >/dev/null; do :; done'
"""The clients run until they are stopped, or until ab fails."""

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
    """Successive ab processes request the same page from nginx.

    nginx runs without workers: with workers it overwrites its environment with its title, and so
    loses the run's mark.
    """

    name = "web"
    summary = "a web server under load"

    def probe(self, host: Host) -> Version:
        """Return the version of nginx."""
        hint = "apt-get install --no-install-recommends nginx-light"
        version, *_ = probe_version(host, ("nginx", "-v"), r"nginx/(\S+)", hint=hint)
        require_programs(host, {"ab": "apache2-utils"})
        return Version(version, verified="verified")

    def start(self, site: Site) -> Plan:
        node = Node(f"{site.prefix}-web", "netns")
        folder = f"{site.run_dir}/web"
        config = f"{folder}/nginx.conf"
        server = f"{site.prefix}-nginx"
        text = _CONFIG.format(folder=folder, page=_PAGE)
        command = ("ab", "-q", "-r", "-n", str(_REQUESTS), "-c", str(_CLIENTS), _URL)
        return (
            *ENVIRONMENTS["netns"].create(node, Needs()),
            Run("its loopback", ("ip", "link", "set", "lo", "up"), at=node),
            Run("a folder for its files", ("mkdir", "-p", folder), undo=("rm", "-rf", folder)),
            Write("the page that it serves", config, text.encode()),
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
                on_cpus(site, ("sh", "-c", _AGAIN, "sh", *command)),
                at=node,
                stop=(SIGTERM, 2.0),
            ),
        )


WEB = Web()
