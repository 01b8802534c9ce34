"""A network of a run's own with bare hosts in it, the services that they reach, and a load balancer: started, hurt and ended from here.

Names come from Docker's addresses and the name of the run, so that runs do not meet. Whatever is started carries the run's label, and `end` removes by it.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_network
from itertools import islice
from pathlib import Path
from typing import Self

from quorate.local.errors import BuildFailed, StartFailed
from tests.e2e.nodes.commands import TIMEOUT, run
from tests.e2e.nodes.engine import LABEL, Engine
from tests.e2e.nodes.images import SERVED_NAMES, host_image, services_image
from tests.e2e.nodes.packages import REPOSITORIES, SERVED
from tests.e2e.nodes.registry import REGISTRY

USER = "debian"
"""Who logs in to the hosts, with the key `nodes.images.SSH_KEY`, and may sudo."""
BOOT_TIMEOUT = 60.0
_PROCESS = f"{LABEL}.process"
"""The label of a network that says which process of this machine its run is of."""
_SERVICES = "services"
_BALANCER = "balancer"
_PORT = 6443
_FIRST_HOST = 100  # of a subnet's addresses; those before it are left to the services
_LIKE_A_MACHINE = ("--privileged", "--cgroupns=private", "--security-opt=seccomp=unconfined", "--security-opt=apparmor=unconfined")

# Without strict limits: haproxy would refuse to start where the hard limit of open files is lower than what it computes. A check may take longer than the
# second between two: on a machine that is busy with three of everything all API servers would be called down at once.
_BALANCING = """\
global
  maxconn 2000
  no strict-limits
defaults
  mode tcp
  timeout connect 2s
  timeout client 10m
  timeout server 10m
  timeout check 3s
  option redispatch
frontend api
  bind *:6443
  default_backend api-servers
backend api-servers
  option httpchk GET /readyz
  default-server check check-ssl verify none inter 1s fall 2 rise 1 on-marked-down shutdown-sessions
"""


@dataclass(frozen=True, slots=True)
class Machine:
    """A host as the suite knows it: its name, its address in the run's network, its container, and its public SSH key in base64."""

    name: str
    address: str
    container: str
    host_key: str


class Machines:
    """The hosts of one run. Use as a context manager; `end` by hand where they are to outlive the process."""

    def __init__(self, engine: Engine, run_name: str = "") -> None:
        self.engine = engine
        self.run_name = run_name or f"quorate-{secrets.token_hex(3)}"
        self.balancer = ""
        self.gateway = ""
        """This machine, as hosts reach it."""
        self._cut: dict[str, str] = {}
        self._addresses: Iterator[IPv4Address | IPv6Address] = iter(())

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.end()
            raise

    def __exit__(self, *_: object) -> None:
        self.end()

    def start(self) -> Self:
        """Make the network, the services and the load balancer, which has nobody to balance yet. Raises MissingTool, StartFailed."""
        with self.engine.exclusively():
            self.engine.start()
            self._make_network()
        aliases = [f"--network-alias={name}" for name in SERVED_NAMES]
        folders = [f"--volume={REPOSITORIES / name}:/srv/{name}:ro" for name in SERVED]
        folders.append(f"--volume={REGISTRY / 'registry.k8s.io'}:/srv/registry.k8s.io:ro")
        self._start(_SERVICES, services_image(), [*aliases, *folders])
        self._start(
            _BALANCER,
            services_image(),
            [],
            "sh",
            "-c",
            "while sleep 0.1; do [ ! -s /etc/haproxy/api.cfg ] || break; done; exec haproxy -W -db -f /etc/haproxy/api.cfg",
        )
        self.balancer = self._address(_BALANCER)
        return self

    def end(self) -> None:
        """Remove everything of the run, and the engine where no other run needs it. Idempotent."""
        if not self.engine.environment:
            with self.engine.exclusively():
                self.engine.start()
        of_run = f"label={LABEL}={self.run_name}"
        containers = self.engine.docker("ps", "-aq", "--filter", of_run).split()
        if containers:
            self.engine.docker("rm", "--force", "--volumes", *containers, timeout=120)
        if networks := self.engine.docker("network", "ls", "-q", "--filter", of_run).split():
            self.engine.docker("network", "rm", *networks)
        self.engine.stop_when_idle()

    def add(self, *names: str) -> list[Machine]:
        """Start bare hosts, all at once, and wait until they take SSH connections. Raises StartFailed."""
        with ThreadPoolExecutor(max_workers=max(len(names), 1)) as pool:
            return list(pool.map(self._add, names, [str(next(self._addresses)) for _ in names]))

    def balance(self, machines: Iterable[Machine]) -> None:
        """Make the load balancer send to these hosts, as their health allows. Connections that are open stay."""
        servers = "".join(f"  server {machine.name} {machine.address}:{_PORT}\n" for machine in machines)
        name = self._container(_BALANCER)
        self.engine.docker(
            "exec",
            "-i",
            name,
            "sh",
            "-c",
            "cat >/etc/haproxy/new && mv /etc/haproxy/new /etc/haproxy/api.cfg",
            given=(_BALANCING + servers).encode(),
        )
        self.engine.docker("kill", "--signal=HUP", name)

    def run(self, machine: Machine, script: str, *, given: bytes = b"", timeout: float = TIMEOUT) -> str:
        """Run a script as root on a host, past SSH, and return its stdout. Raises BuildFailed with its last lines when it fails."""
        return self.engine.docker("exec", "-i", machine.container, "sh", "-euc", script, given=given, timeout=timeout)

    def remove(self, machine: Machine) -> None:
        """The host is gone for good, with its disks."""
        self.engine.docker("rm", "--force", "--volumes", machine.container)

    def power_off(self, machine: Machine) -> None:
        """The host stops at once, as when its power is cut; its disks stay."""
        self.engine.docker("kill", machine.container)

    def power_on(self, machine: Machine) -> None:
        """Start a host that was powered off, and wait until it takes connections; it keeps its address. Raises StartFailed."""
        self.engine.docker("start", machine.container)
        self._wait_for_boot(machine.name)

    def wipe_etcd(self, machine: Machine) -> None:
        """The data folder of the host's etcd is emptied under it, and the member is stopped."""
        script = "ctr -n k8s.io tasks ls >/dev/null; pkill -KILL -x etcd || true; rm -rf /var/lib/etcd/member"
        self.run(machine, script)

    def cut(self, machine: Machine) -> None:
        """Take the host's network away, as when its cable is pulled: nothing is refused, everything is silent. Idempotent."""
        if machine.name not in self._cut:
            link = self._link(machine)
            run(["ip", "link", "set", link, "down"], making=f"cut {machine.name}")
            self._cut[machine.name] = link

    def mend(self, machine: Machine) -> None:
        """Undo `cut`. Idempotent."""
        if link := self._cut.pop(machine.name, ""):
            run(["ip", "link", "set", link, "up"], making=f"mend {machine.name}")

    def _make_network(self) -> None:
        """A network in which a host keeps its address when it is off: Docker lets it only where the subnet was named, so the one that Docker chose is."""
        create = ("network", "create", f"--label={LABEL}={self.run_name}", f"--label={_PROCESS}={os.getpid()}")
        self.engine.docker(*create, self.run_name)
        subnet = json.loads(self.engine.docker("network", "inspect", self.run_name))[0]["IPAM"]["Config"][0]["Subnet"]
        self.engine.docker("network", "rm", self.run_name)
        addresses = ip_network(subnet).hosts()
        self.gateway = str(next(addresses))
        self.engine.docker(*create, f"--subnet={subnet}", f"--gateway={self.gateway}", self.run_name)
        self._addresses = islice(addresses, _FIRST_HOST - 1, None)

    def _add(self, name: str, address: str) -> Machine:
        folders = ("--tmpfs=/run", "--tmpfs=/tmp", "--volume=/var")
        self._start(name, host_image(), ["--tty", f"--hostname={name}", f"--ip={address}", *_LIKE_A_MACHINE, *folders])
        self._wait_for_boot(name)
        container = self._container(name)
        key = self.engine.docker("exec", container, "cat", "/etc/ssh/ssh_host_ed25519_key.pub").split()[1]
        base64.b64decode(key, validate=True)
        return Machine(name, self._address(name), container, key)

    def _wait_for_boot(self, name: str) -> None:
        container = self._container(name)

        def booted() -> bool:
            try:
                return self.engine.docker("exec", container, "systemctl", "is-active", "ssh").strip() == "active"
            except BuildFailed:
                return False

        _until(booted, f"{name} did not boot; see `docker logs {container}`")

    def _start(self, name: str, image: str, options: Sequence[str], *command: str) -> None:
        labels = [f"--label={LABEL}={self.run_name}", f"--name={self._container(name)}", f"--network={self.run_name}"]
        self.engine.docker("run", "--detach", *labels, *options, image, *command)

    def _container(self, name: str) -> str:
        return f"{self.run_name}-{name}"

    def _address(self, name: str) -> str:
        inspected = json.loads(self.engine.docker("inspect", self._container(name)))
        return str(inspected[0]["NetworkSettings"]["Networks"][self.run_name]["IPAddress"])

    def _link(self, machine: Machine) -> str:
        """The machine's end of the pair of network interfaces whose other end is in the container."""
        index = self.engine.docker("exec", machine.container, "cat", "/sys/class/net/eth0/iflink").strip()
        for path in Path("/sys/class/net").iterdir():
            if (path / "ifindex").read_text().strip() == index:
                return path.name
        raise StartFailed(f"the network interface {index} of {machine.name} is not on this machine: is the Docker daemon on another?")


def runs_left(engine: Engine) -> list[str]:
    """The runs that outlived the process that started them: what `make hosts` and `--keep-hosts` leave, and what was killed before it could end them."""
    told = f'{{{{.Label "{LABEL}"}}}} {{{{.Label "{_PROCESS}"}}}}'
    networks = (line.partition(" ") for line in engine.docker("network", "ls", "--filter", f"label={LABEL}", "--format", told).splitlines())
    return [run_name for run_name, _, process in networks if not process or not Path("/proc", process).exists()]


def _until(done: Callable[[], bool], trouble: str) -> None:
    deadline = time.monotonic() + BOOT_TIMEOUT
    while not done():
        if time.monotonic() > deadline:
            raise StartFailed(trouble)
        time.sleep(0.2)
