"""What the tests of changing control planes ask again and again: the steps that a manager took, the plan made before, and the names that came and went."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.integration.conftest import KINDS

if TYPE_CHECKING:
    from tests.integration.conftest import Manager, Object, Stage

UNFORESEEN = ("renew the kubeconfig", "write the kubeconfig", "record when", "update kube-proxy")
"""Steps that a plan of machines does not count: they come whenever there is time for them."""

REMEDIATE = "cluster.x-k8s.io/remediate-machine"


def steps_taken(manager: Manager, begin: int = 0) -> list[str]:
    """The steps in the manager's log from its `begin`-th byte on, as they are written there."""
    with manager.log.open("rb") as file:
        file.seek(begin)
        lines = [json.loads(line) for line in file.read().decode().splitlines() if line.startswith("{")]
    return [line["step"] for line in lines if line.get("msg") == "step"]


def log_size(manager: Manager) -> int:
    """Where the manager's log ends now."""
    return manager.log.stat().st_size


async def quorate(stage: Stage, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A `quorate` command on this stage's management cluster, as a user types it."""
    command = (
        sys.executable,
        "-m",
        "quorate",
        *arguments,
        f"--kubeconfig={stage.stack.kubeconfig}",
        "--etcd-dialer=in-memory",
        f"--namespace={stage.namespace}",
    )
    return await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60, env=os.environ, check=False)


async def plan(stage: Stage, *edits: str) -> Any:
    """What `quorate plan` says, as JSON; fails with its message where it cannot say anything."""
    answer = await quorate(stage, "plan", stage.namespace, "-o", "json", *(f"--set={edit}" for edit in edits))
    assert answer.returncode in (0, 2), answer.stderr
    found = json.loads(answer.stdout)
    assert answer.returncode == (2 if found["steps"] or not found["converges"] else 0)
    return found


def comparable(steps: Iterable[str]) -> list[str]:
    """Steps without what a plan cannot know (the ids of members that do not exist yet, names of new machines) and without what it does not count."""
    kept = [step for step in steps if not step.startswith(UNFORESEEN)]
    return [re.sub(r"etcd member [0-9a-f]+ of", "etcd member of", step) for step in kept]


def planned(found: Any, created: list[str]) -> list[str]:
    """The plan's steps with the names that its placeholders got, in the order of creation."""
    names = {f"new-{number}": name for number, name in enumerate(created, 1)}
    return comparable(re.sub(r"new-\d+", lambda match: names[match.group()], step["step"]) for step in found["steps"])


def by_age(machines: Iterable[Object]) -> list[str]:
    """Names, oldest first."""
    ordered = sorted(machines, key=lambda machine: (machine["metadata"]["creationTimestamp"], machine["metadata"]["name"]))
    return [machine["metadata"]["name"] for machine in ordered]


async def until_version(stage: Stage, version: str, replicas: int, *, timeout: float = 240) -> None:
    """Wait until every Machine has this version and all are ready."""

    async def answer() -> bool:
        machines = await stage.machines()
        return len(machines) == replicas and {machine["spec"]["version"] for machine in machines} == {version}

    await stage.until(f"{replicas} Machines of {version}", answer, timeout=timeout)
    await stage.until_ready(replicas, timeout=timeout)


async def until_begun(stage: Stage, before: set[str]) -> None:
    """Wait until there is a Machine that is not among those of `before`."""

    async def answer() -> bool:
        return bool(await stage.names("Machine") - before)

    await stage.until("the rollout has begun", answer)


async def until_replaced(stage: Stage, names: set[str], replicas: int, *, timeout: float = 240) -> None:
    """Wait until none of these Machines is left and all are ready."""

    async def answer() -> bool:
        return names.isdisjoint(await stage.names("Machine"))

    await stage.until(f"{sorted(names)} are replaced", answer, timeout=timeout)
    await stage.until_ready(replicas, timeout=timeout)


async def annotate(stage: Stage, kind: str, name: str, **annotations: str | None) -> None:
    """Merge annotations into an object; None takes one away."""
    await stage.client.merge_patch(KINDS[kind], name, {"metadata": {"annotations": annotations}}, stage.namespace)


async def fail_machine(stage: Stage, name: str) -> None:
    """Have the MachineHealthCheck of the stage's cluster fail a Machine."""
    await stage.client.merge_patch(KINDS["Machine"], name, {"metadata": {"annotations": {REMEDIATE: ""}}}, stage.namespace)


async def nothing_orphaned(stage: Stage) -> None:
    """Every Machine has its companions, and there are no others."""

    async def answer() -> bool:
        machines = await stage.names("Machine")
        return machines == await stage.names("KubeadmConfig") == await stage.names("DevMachine")

    await stage.until("companions and Machines are the same", answer)


def errors_in(log: Path) -> list[str]:
    """Lines of a manager's log at level error."""
    lines = [line for line in log.read_text().splitlines() if line.startswith("{")]
    return [line for line in lines if json.loads(line).get("level") == "error"]
