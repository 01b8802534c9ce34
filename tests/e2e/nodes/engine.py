"""The Docker daemon that the nodes run in: the machine's own where one answers, else one of ours, from Debian's packages, under `.cache/nodes/engine`.

Ours needs root on a Debian-like machine and installs nothing: its packages are unpacked into the cache, and in a mount namespace of its own it sees folders of
the cache where it would write to /etc, /lib, /opt and /run. It leaves behind what every Docker daemon does to a kernel: forwarding, bridges and firewall rules.
The last user ends it. Where the machine lacks CAP_SYS_RESOURCE, runc is wrapped (`tools/nodes/engine`).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from quorate.local.errors import BuildFailed, MissingTool
from quorate.local.programs import PROJECT
from tests.e2e.nodes.commands import TIMEOUT, require, run

CACHE = PROJECT / ".cache" / "nodes"
FILES = PROJECT / "tools" / "nodes"
LABEL = "quorate-e2e"
"""The label of every network and container of the suite; its value is the name of the run."""
_PACKAGES = (
    *("docker.io", "containerd", "runc", "tini", "debootstrap", "iptables", "libip4tc2", "libip6tc2", "libxtables12", "libmnl0"),
    *("libnetfilter-conntrack3", "libnfnetlink0", "libnftnl11", "libseccomp2", "libdevmapper1.02.1"),
)
_IPTABLES = tuple(f"{family}{suffix}" for family in ("iptables", "ip6tables") for suffix in ("", "-save", "-restore"))
_READY_TIMEOUT = 60.0
_STOP_TIMEOUT = 30.0
_LIMITS = {
    "fs/inotify/max_user_instances": 8192,  # a node with systemd, containerd and a kubelet holds 25 to 35: with the usual 128 the sixth fails to boot
    "net/netfilter/nf_conntrack_max": 1_000_000,  # what quorate gives a host, and a container cannot set
}
_SYS_RESOURCE = 1 << 24

# It outlives the process that starts it, so that it must not be a child of it.
_IN_BACKGROUND = ("setsid", "--fork", "unshare", "--mount", "--propagation", "private")
# The daemon writes to /run/docker, /opt/containerd and /etc/docker whatever its options say, and makes /lib/modules where a container wants to see it.
_IN_OWN_FOLDERS = """\
mount --bind "$0/run" /run
mount --bind "$0/opt" /opt
mount -t overlay -o "lowerdir=/etc,upperdir=$0/etc,workdir=$0/etc-work" overlay /etc
mount -t overlay -o "lowerdir=/usr/lib,upperdir=$0/lib,workdir=$0/lib-work" overlay /usr/lib
exec "$@"
"""


class Engine:
    """A Docker daemon to talk to. `docker` works once `started` has been entered, and for as long as any run uses it."""

    def __init__(self, folder: Path = CACHE / "engine") -> None:
        self.folder = folder
        self._socket = folder / "docker.sock"
        self._environment: dict[str, str] = {}

    @property
    def root(self) -> Path:
        """Where the packages of Debian are unpacked, debootstrap's among them."""
        return self.folder / "root"

    @property
    def environment(self) -> Mapping[str, str]:
        """What `docker` finds the daemon by: to be set for programs that call it themselves."""
        return self._environment

    def docker(self, *arguments: str | Path, given: bytes = b"", timeout: float = TIMEOUT) -> str:
        """Run the Docker client and return its stdout. Raises BuildFailed with what it said."""
        return run([self._client(), *arguments], making="docker", given=given, environment=self._environment, timeout=timeout)

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """The only process that starts or ends the daemon, or makes a network, until the block ends."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def start(self) -> None:
        """Make sure that a daemon answers. Call it in `exclusively`. Idempotent. Raises MissingTool, BuildFailed."""
        if not self._answers({}) and not self._answers({"DOCKER_HOST": f"unix://{self._socket}"}):
            self._start_ours()
        _raise_limits()

    def stop_when_idle(self) -> None:
        """End a daemon of ours that no run has a network or container in any more. Idempotent."""
        with self.exclusively():
            if not self._environment or self.docker("network", "ls", "-q", "--filter", f"label={LABEL}").strip():
                return
            pid_file = self.folder / "docker.pid"
            pid = int(pid_file.read_text())
            os.kill(pid, signal.SIGTERM)
            _until(lambda: not pid_file.exists(), _STOP_TIMEOUT, f"the Docker daemon {pid} does not end")

    def unpack(self) -> None:
        """Fetch the packages of the daemon and of debootstrap, and unpack them. Idempotent."""
        done = self.folder / ".unpacked"
        if done.exists() and done.read_text() == " ".join(_PACKAGES):
            return
        packages = self.folder / "packages"
        shutil.rmtree(packages, ignore_errors=True)
        packages.mkdir(parents=True)
        get, unpack = require("apt-get", "apt"), require("dpkg-deb", "dpkg")
        fetch = f"cd '{packages}' && exec '{get}' -q download {' '.join(_PACKAGES)}"
        run(["sh", "-c", fetch], making="Debian's packages (after `apt-get update`?)", timeout=600)
        for package in sorted(packages.glob("*.deb")):
            run([unpack, "-x", package, self.root], making=package.name)
        self._link_programs()
        done.write_text(" ".join(_PACKAGES))

    def _link_programs(self) -> None:
        """The names that Docker calls its helpers by; /usr/bin as a whole would hide the machine's own docker."""
        programs = self.root / "programs"
        programs.mkdir(exist_ok=True)
        links = dict.fromkeys(_IPTABLES, "usr/sbin/xtables-nft-multi")
        links |= {name: f"usr/bin/{name}" for name in ("containerd", "containerd-shim-runc-v2")}
        links |= {name: f"usr/sbin/{name}" for name in ("dockerd", "docker-proxy", "runc", "debootstrap")}
        links["docker-init"] = "usr/bin/tini-static"
        for name, target in links.items():
            link = programs / name
            link.unlink(missing_ok=True)
            link.symlink_to(self.root / target)

    def _client(self) -> str:
        return shutil.which("docker") or str(self.root / "usr/bin/docker")

    def _answers(self, environment: dict[str, str]) -> bool:
        command = [self._client(), "info", "--format", "{{.ServerVersion}}"]
        try:
            done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, timeout=10, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return False
        if done.returncode == 0 and done.stdout.strip():
            self._environment = environment
            return True
        return False

    def _start_ours(self) -> None:
        if os.geteuid() != 0:
            raise MissingTool("no Docker daemon answers, and only root can start one: start Docker, or set DOCKER_HOST, and try again")
        self.unpack()
        for name in ("run", "opt", "etc", "etc-work", "lib", "lib-work"):
            (self.folder / name).mkdir(exist_ok=True)
        for name in ("docker.pid", "docker.sock"):  # of a daemon that was killed: it did not answer
            (self.folder / name).unlink(missing_ok=True)
        daemon = [str(self.root / "programs/dockerd"), "--data-root", str(self.folder / "data"), "--exec-root", str(self.folder / "exec")]
        daemon += ["--pidfile", str(self.folder / "docker.pid"), "--host", f"unix://{self._socket}", *_runtime()]
        with (self.folder / "dockerd.log").open("w") as log:
            subprocess.run(
                [*_IN_BACKGROUND, "sh", "-eu", "-c", _IN_OWN_FOLDERS, str(self.folder), *daemon],
                env={**os.environ, **self._libraries()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=True,
            )
        host = {"DOCKER_HOST": f"unix://{self._socket}"}
        _until(lambda: self._answers(host), _READY_TIMEOUT, f"the Docker daemon does not answer; see {self.folder / 'dockerd.log'}")

    def _libraries(self) -> dict[str, str]:
        libraries = [str(folder) for folder in (*self.root.glob("usr/lib/*-linux-gnu"), *self.root.glob("lib/*-linux-gnu"))]
        return {
            "PATH": f"{self.root / 'programs'}{os.pathsep}{os.environ['PATH']}{os.pathsep}/usr/sbin{os.pathsep}/sbin",
            "LD_LIBRARY_PATH": os.pathsep.join(libraries),
            "XTABLES_LIBDIR": str(next(self.root.glob("usr/lib/*-linux-gnu/xtables"))),
        }


def _runtime() -> Sequence[str]:
    """The daemon's options for the wrapped runc where this machine needs it."""
    bounding = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapBnd:"))
    if int(bounding.split()[1], 16) & _SYS_RESOURCE:
        return ()
    return (
        "--add-runtime",
        f"without-sys-resource={FILES / 'engine/runc-without-sys-resource'}",
        "--default-runtime",
        "without-sys-resource",
    )


def _raise_limits() -> None:
    for name, needed in _LIMITS.items():
        limit = Path("/proc/sys") / name
        try:
            if int(limit.read_text()) < needed:
                limit.write_text(str(needed))
        except OSError as error:
            raise MissingTool(f"too low a limit for the nodes: sysctl {name.replace('/', '.')}={needed} ({error})") from None


def _until(done: Callable[[], bool], timeout: float, trouble: str) -> None:
    deadline = time.monotonic() + timeout
    while not done():
        if time.monotonic() > deadline:
            raise BuildFailed(trouble)
        time.sleep(0.1)
