"""`python -m tests.e2e.nodes build|hosts|end`: what hosts need made once, three bare hosts left running with a manifest to try, and all ended that was left."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from quorate.local.errors import LocalError
from quorate.local.programs import PROJECT
from quorate.local.progress import Progress
from tests.e2e import docker_backend, manifests
from tests.e2e.machines import USER, Machine, Machines, runs_left
from tests.e2e.nodes.build import build
from tests.e2e.nodes.engine import Engine
from tests.e2e.nodes.images import SSH_KEY

RUN = "quorate-hosts"
"""The run of `hosts`: there is one at a time, and each start replaces it."""
MANIFEST = PROJECT / ".local" / "hosts" / "kubeone.yaml"
_NAMES = ("cp1", "cp2", "cp3")


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code: 0, 2 for a wrong command line, else that of the error (`quorate.local.errors`)."""
    commands = {"build": _build, "hosts": _hosts, "end": _end}
    if len(arguments) != 1 or arguments[0] not in commands:
        sys.stderr.write(f"usage: python -m tests.e2e.nodes {'|'.join(commands)}\n")
        return 2
    try:
        commands[arguments[0]](Progress(sys.stdout, time.monotonic))
    except LocalError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted; what was finished is kept\n")
        return 130
    return 0


def _build(progress: Progress) -> None:
    engine = Engine()
    try:
        build(engine, progress)
    finally:
        engine.stop_when_idle()


def _hosts(progress: Progress) -> None:
    engine = Engine()
    build(engine, progress)
    machines = Machines(engine, RUN)
    machines.end()
    with progress.step(f"three bare hosts: {', '.join(_NAMES)}"):
        machines.start()
        hosts = machines.add(*_NAMES)
        machines.balance(hosts)
    MANIFEST.parent.mkdir(parents=True, exist_ok=True)
    manifests.write(MANIFEST, manifests.document(machines.balancer, hosts))
    _tell(machines, hosts)


def _end(progress: Progress) -> None:
    """The hosts of tests that are under way stay."""
    engine = Engine()
    with progress.step("ending the hosts that were left running"):
        with engine.exclusively():
            engine.start()
        left = runs_left(engine)
        for run_name in left:
            if run_name == docker_backend.NETWORK:
                docker_backend.clear(engine)
            Machines(engine, run_name).end()
        if not left:
            engine.stop_when_idle()


def _tell(machines: Machines, hosts: Sequence[Machine]) -> None:
    name = MANIFEST.relative_to(PROJECT)
    lines = [
        "",
        *(f"  {host.name}  {host.address}" for host in hosts),
        f"  load balancer  {machines.balancer}:6443",
        "",
        f"Their manifest is {name}. Try:",
        "",
        f"  quorate plan -m {name}",
        f"  quorate apply -m {name}",
        f"  quorate status -m {name}",
        f"  ssh -i {SSH_KEY.relative_to(PROJECT)} {USER}@{hosts[0].address}",
        "  make hosts-end",
        "",
    ]
    if environment := machines.engine.environment:
        variables = " ".join(f"{key}={value}" for key, value in environment.items())
        lines.append(f"The hosts are containers of a Docker daemon of their own: {variables} docker ps")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
