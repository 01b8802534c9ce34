"""A host that sends what it likes, observed by the real code: nothing of it reaches a terminal, and what is said of the other hosts is what it always was."""

from __future__ import annotations

import base64
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from quorate.cli import lines
from quorate.cli.documents import as_json
from quorate.cli.hosts.plan import plan_of
from quorate.cli.hosts.status import status_of
from quorate.core.hosts.state import Cluster, Host
from quorate.core.ring import in_words
from quorate.hosts.connect.ssh.errors import OutputTooLong, ScriptFailed
from quorate.hosts.connect.ssh.scripts import LIMIT, Outcome
from quorate.hosts.observe.inspection import KUBELET_CONFIGURATION
from quorate.hosts.probe.probe import script
from quorate.hosts.run import plan_file
from quorate.hosts.run.overview import hosts_in_words
from tests.core.test_text import BOMB, INJECTIONS
from tests.hosts.observe.world import FolderHost, World, put_node, stand
from tests.hosts.probe.machine import NOW

HOSTILE, OTHERS = "cp-2", ("cp-1", "cp-3")
EVIL = "".join(INJECTIONS.values())

Answer = Callable[[str, Outcome], Outcome]


class HostileHost(FolderHost):
    """A host that does what a well one does, and says of it what `answer` makes of the truth."""

    def __init__(self, well: FolderHost, answer: Answer) -> None:
        self.name, self.folder, self.member, self._answer = well.name, well.folder, well.member, answer

    async def run(self, text: str, **how: Any) -> Outcome:
        return self._answer(text, await super().run(text, **how))


def appended(_: str, truth: Outcome) -> Outcome:
    """Every field, and every line, has an injection behind it."""
    evil = EVIL.replace("\n", "").encode()
    return Outcome(truth.exit_status, re.sub(rb"(?=[\t\n])", evil, truth.stdout), truth.stderr + evil)


def replaced(_: str, truth: Outcome) -> Outcome:
    """Every value is an injection."""
    evil = EVIL.replace("\n", "").replace("\t", "").encode()
    return Outcome(truth.exit_status, re.sub(rb"(?<=\t)[^\t\n=?-][^\t\n]*", evil, truth.stdout), evil)


def in_quotes(_: str, truth: Outcome) -> Outcome:
    """Flags in quotes, in which YAML has escapes of its own."""
    return Outcome(truth.exit_status, truth.stdout.replace(b"--leader-elect=true", rb'"--leader-elect=\u001b[2J\u202e\n"'), b"")


def failing(_: str, __: Outcome) -> Outcome:
    return Outcome(1, b"", EVIL.encode())


def unknown(_: str, truth: Outcome) -> Outcome:
    """It says of everything that it cannot be known, in words of its own."""
    evil = EVIL.replace("\n", "").encode()
    return Outcome(0, re.sub(rb"(?m)^([^\t\n]+)\t.*$", rb"\1\t?\t" + evil, truth.stdout), b"")


def noise(_: str, __: Outcome) -> Outcome:
    return Outcome(0, random.Random(1).randbytes(1 << 16), random.Random(2).randbytes(1 << 10))


def huge(_: str, truth: Outcome) -> Outcome:
    return Outcome(0, truth.stdout.replace(b"Debian", b"D" * (LIMIT - len(truth.stdout))), b"x" * LIMIT)


def numbers(_: str, truth: Outcome) -> Outcome:
    """Each setting of its kernel has more digits than Python reads as a number."""
    return Outcome(0, re.sub(rb"(?m)^(sysctl\..*\t=\t)[^\t\n]*", rb"\g<1>" + b"9" * 5000, truth.stdout), b"")


def too_long(_: str, __: Outcome) -> Outcome:
    raise OutputTooLong("host cp-2", f"a script wrote more than it may: {EVIL}")


def cut(_: str, __: Outcome) -> Outcome:
    raise ScriptFailed("host cp-2", EVIL, exit_status=1)


def configured_with(document: str | bytes) -> Answer:
    """The kubelet's configuration is this document."""
    content = document.encode("utf-8", "surrogatepass") if isinstance(document, str) else document

    def answer(text: str, truth: Outcome) -> Outcome:
        if text.endswith(script()):
            return truth
        told = f"content {KUBELET_CONFIGURATION} =".encode()
        return Outcome(0, re.sub(re.escape(told) + rb".*", told + base64.b64encode(content), truth.stdout), b"")

    return answer


EVIL_IN_YAML = r"\x1b[2J\u202e\n  1  reset cp-1"
DOCUMENTS: dict[str, str | bytes] = {
    "aliases": BOMB,
    "depth": "[" * 100_000,
    "a number": "maxPods: " + "9" * 5000,
    "a date": "maxPods: 2001-99-99",
    "no mapping": f'"{EVIL_IN_YAML}"',
    "texts": f'maxPods: "{EVIL_IN_YAML}"\ntlsCipherSuites: ["{EVIL_IN_YAML}"]\nevictionHard: {{"{EVIL_IN_YAML}": "{EVIL_IN_YAML}"}}',
    "other shapes": "maxPods: [[1], {a: b}]\nevictionHard: 7\nkubeReserved: [1, 2]\nauthentication: 3\ntlsCipherSuites: [[1], 2, {a: 1}, null]",
    "lists for texts": "clusterDomain: [a]\nauthentication: {x509: [1], webhook: {enabled: {}}}\nfeatureGates: [1]",
    "keys": "1: 2\nnull: 3\ntrue: 4\n3.5: 6\nevictionHard: {1: 2, null: 3}",
    "bytes": random.Random(3).randbytes(1000),
}
_SAYING = (appended, replaced, in_quotes, failing, unknown, noise, huge, numbers, too_long, cut)
ANSWERS: dict[str, Answer] = {each.__name__: each for each in _SAYING}
ANSWERS |= {f"configuration of {name}": configured_with(document) for name, document in DOCUMENTS.items()}


def everything_said(cluster: Cluster) -> str:
    """What every command says of a cluster, and what a record and a saved plan hold of it."""
    plan, status = plan_of(cluster, NOW), status_of(cluster, NOW)
    views = [lines.plan(plan), lines.explanation(status, NOW), lines.glance(status)]
    records = [*hosts_in_words(cluster).values(), in_words(cluster.ring), *map(str, plan_file.facts(cluster).items())]
    return "\n".join(map(click.unstyle, (*views, *records, as_json(plan), as_json(status))))


def assert_harmless(said: str) -> None:
    """No line has anything in it that a terminal obeys, nor begins as a step of a plan does and is none."""
    assert [line for line in said.split("\n") if not line.isprintable()] == []
    assert "\n  1  reset cp-1" not in said


def of_others(cluster: Cluster) -> list[Host]:
    return [host for host in cluster.hosts if host.name != HOSTILE]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return stand(tmp_path)


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
async def test_what_a_hostile_host_says_is_harmless_and_harms_nobody_else(world: World, answer: Answer) -> None:
    well = await world.cluster()
    world.machines[HOSTILE] = HostileHost(world.machines[HOSTILE], answer)
    cluster = await world.cluster()
    assert_harmless(everything_said(cluster))
    assert of_others(cluster) == of_others(well)
    assert cluster.ring == well.ring


@pytest.mark.parametrize("text", INJECTIONS.values(), ids=INJECTIONS)
async def test_what_an_api_server_says_is_harmless(world: World, text: str) -> None:
    put_node(world, f"cp-9{text}", "10.0.0.9")
    for path, found in world.api_objects.objects.items():
        if "/nodes/" in path:
            found["status"]["conditions"] = [
                {"type": "Ready", "status": "False", "reason": text, "message": text},
                {"type": text, "status": text},
            ]
            found["metadata"]["annotations"] = {text: text}
    assert_harmless(everything_said(await world.cluster()))


async def test_what_etcd_says_of_its_members_is_harmless(world: World) -> None:
    world.etcd_ring.add(9, f"cp-9{EVIL}", f"10.0.0.9/{EVIL}")
    assert_harmless(everything_said(await world.cluster()))
