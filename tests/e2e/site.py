"""One cluster as its operator has it: hosts, a manifest that says what is wanted of them, and the commands that bring it about."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from tests.e2e import manifests
from tests.e2e.client import WritingClient
from tests.e2e.command import Done, Running, quorate
from tests.e2e.machines import Machine, Machines
from tests.e2e.nodes.programs import VERSIONS

PLANS = Path(__file__).with_name("plans")
"""The plan of every scenario as a person reads it: its steps, and what stands in the way. Numbers of members, and the width they take, are left out."""
NOTHING = "Nothing to do: everything is as the manifest says."
_PLAN_BEGINS = ("Steps, and etcd's", "Nothing can be done now", NOTHING)
_PLAN_ENDS = ("Then everything is", "Then it waits", *_PLAN_BEGINS[1:])
_MEMBER = re.compile(r"\betcd member [0-9a-f]+\b")
_PADDING = re.compile(r"(?<=\S) {2,}")
_STEP = re.compile(r" +\d+  (.+?)(?:  .*)?")


class Site:
    """`manifest` is what the commands read. It is written by `describe`, and again when something else is wanted."""

    def __init__(self, machines: Machines, folder: Path) -> None:
        self.machines = machines
        self.manifest = folder / "kubeone.yaml"
        self._kubeconfig = folder / "kubeconfig"
        self._document: dict[str, Any] = {}

    def describe(self, control_plane: Sequence[Machine], workers: Sequence[Machine] = (), *, version: str = VERSIONS[0]) -> None:
        """Want these hosts, at this version, behind the load balancer."""
        self._document = manifests.document(self.machines.balancer, control_plane, workers, version=version)
        manifests.write(self.manifest, self._document)
        self.machines.balance(control_plane)

    def edit(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Want something else, by a change of the manifest's document."""
        change(self._document)
        manifests.write(self.manifest, self._document)

    def apply(self, *flags: str, plan: str = "") -> Done:
        """`quorate apply -y` to its end, which asserts that what was done is what the plan had said; `plan` names the committed text of that plan."""
        done = self.start(*flags).ended()
        if plan:
            assert_as_committed(plan, done.errors)
            assert done.steps == planned(done.errors), done.told()
        return done

    def start(self, *flags: str) -> Running:
        """`quorate apply -y`, begun."""
        return Running(("apply", "-m", str(self.manifest), "-y", "-o", "json", *flags))

    def run(self, *command: str) -> Done:
        """Any other command, on this manifest."""
        return quorate(*command, "-m", str(self.manifest))

    def status(self) -> Any:
        """What `quorate status -o json` says."""
        return self.run("status", "-o", "json").document

    def assert_nothing_to_do(self) -> Done:
        """A further apply finds everything as the manifest says, and changes nothing."""
        done = self.start().ended().succeeded()
        assert NOTHING in done.errors, done.told()
        assert not done.events, done.told()
        return done

    def writing(self) -> WritingClient:
        """A client that writes through the load balancer, for the length of a block."""
        return WritingClient(self.kubeconfig())

    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, as a file."""
        done = self.run("kubeconfig").succeeded()
        self._kubeconfig.touch(mode=0o600)
        self._kubeconfig.write_text(done.output)
        return self._kubeconfig


def plan_in(text: str) -> str:
    """The part of what `apply` shows that says what it will do, or why it does nothing."""
    lines = text.splitlines()
    first = next((number for number, line in enumerate(lines) if line.startswith(_PLAN_BEGINS)), len(lines))
    last = next((number for number, line in enumerate(lines) if line.startswith(_PLAN_ENDS)), len(lines))
    reasons = takewhile(lambda line: line.startswith("  "), lines[last + 1 :])  # what follows them is said of the run
    return _PADDING.sub("  ", _MEMBER.sub("etcd member ID", "\n".join((*lines[first : last + 1], *reasons)) + "\n"))


def planned(text: str) -> list[str]:
    """The steps of that plan, with the numbers of members."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith(_PLAN_BEGINS[0]):
            break
    steps = []
    for line in lines:
        found = _STEP.fullmatch(line)
        if found is None:
            break
        steps.append(found[1].rstrip())
    return steps


def assert_as_committed(name: str, text: str) -> None:
    """The plan is the committed one. With E2E_WRITE_PLANS set it becomes the committed one: look at what changed before you commit it."""
    path = PLANS / f"{name}.txt"
    found = plan_in(text)
    if os.environ.get("E2E_WRITE_PLANS"):
        PLANS.mkdir(exist_ok=True)
        path.write_text(found)
    assert found == path.read_text(), f"the plan differs from {path}:\n{found}"
