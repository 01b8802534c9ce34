"""`quorate get`: rows, formats, and control planes that are not there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
import yaml
from click.testing import Result

from quorate.cli.machines.access import changed, look
from quorate.cli.machines.get import HEADINGS, cells, render, summary_of, table
from quorate.clusterapi.inspection import Finding as Look
from quorate.clusterapi.observe.observation import Connection
from quorate.core.health import Health
from quorate.kubernetes.controller import Request

from .conftest import FakeApi, kcp, kcp_document

Cli = Callable[..., Result]
Kubeconfig = Callable[[str], str]
MakeLook = Callable[..., Look]
DEMO = Request("default", "demo")


def test_a_row_has_every_number_of_the_status(look: MakeLook, noon: datetime) -> None:
    available = {"conditions": [{"type": "Available", "status": "True"}]}
    row = cells(summary_of(look(kcp=kcp(**available, readyReplicas=2))), noon + timedelta(minutes=5))
    told = dict(zip(HEADINGS, row, strict=True))
    assert [told[name] for name in ("DESIRED", "CURRENT", "READY", "AVAILABLE", "UP-TO-DATE")] == ["3", "3", "2", "3", "3"]
    assert (told["AVAILABLE?"], told["ETCD"], told["AGE"]) == ("True", "3 voters, tolerates 1", "5m")


def test_the_table_is_aligned_and_has_no_trailing_blanks(look: MakeLook, noon: datetime) -> None:
    lines = render([summary_of(look())], "table", noon).splitlines()
    assert lines[0].split() == list(HEADINGS)
    assert lines[1].index("demo") == lines[0].index("NAME ")
    assert table([("a", "b"), ("long", "")]) == "a      b\nlong\n"


def test_the_same_in_json_in_yaml_and_as_names(look: MakeLook, noon: datetime) -> None:
    rows = [summary_of(look())]
    (from_json,) = json.loads(render(rows, "json", noon))
    (from_yaml,) = yaml.safe_load(render(rows, "yaml", noon))
    assert (from_json["name"], from_json["replicas"]["desired"]) == ("demo", 3)
    assert from_yaml == from_json
    assert json.loads(render(rows, "lines", noon)) == from_json
    assert render(rows, "name", noon) == "kubeadmcontrolplane.controlplane.cluster.x-k8s.io/demo\n"


def test_the_control_planes_of_an_api_server_are_listed(cli: Cli, api: FakeApi, kubeconfig: Kubeconfig) -> None:
    api.items["kubeadmcontrolplanes"] = [kcp_document()]
    result = cli("get", "--kubeconfig", kubeconfig(api.url))
    assert result.exit_code == 0, result.output
    assert "waits for a Cluster that owns it" in result.stdout
    assert "\x1b" not in result.stdout


def test_no_control_plane_is_no_error_and_says_so(cli: Cli, api: FakeApi, kubeconfig: Kubeconfig) -> None:
    result = cli("get", "-n", "elsewhere", "--kubeconfig", kubeconfig(api.url))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "No control planes found in namespace elsewhere.\n")
    assert cli("get", "-A", "-o", "json", "--kubeconfig", kubeconfig(api.url)).stdout == "[]\n"


@pytest.mark.parametrize("watch", [(), ("-w",)])
def test_a_name_that_is_not_there_ends_with_12(cli: Cli, api: FakeApi, kubeconfig: Kubeconfig, watch: tuple[str, ...]) -> None:
    api.items["kubeadmcontrolplanes"] = [kcp_document()]
    result = cli("get", "demo", "other", "-o", "name", "--kubeconfig", kubeconfig(api.url), *watch)
    assert result.exit_code == 12
    assert result.stdout.endswith("/demo\n")
    assert "no KubeadmControlPlane other in namespace default" in result.stderr


class Eyes:
    """An Inspector that sees one look after the other, the last one for ever."""

    def __init__(self, *looks: Look | None) -> None:
        self.looks = list(looks)
        self.changed: asyncio.Queue[Request] = asyncio.Queue()

    async def look(self, _request: Request) -> Look | None:
        self.changed.put_nowait(DEMO)
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]


NOT_TRIED = Connection(Health.UNKNOWN, "no attempt has ended")


async def test_a_look_waits_until_the_connection_has_come(look: MakeLook) -> None:
    eyes = Eyes(look(connection=NOT_TRIED), look(connection=NOT_TRIED), look())
    found = await looked(eyes)
    assert found[DEMO].observation.connection.health is Health.GOOD


async def test_a_look_waits_until_the_connection_has_failed(look: MakeLook) -> None:
    eyes = Eyes(look(connection=NOT_TRIED), look(connection=Connection(Health.UNKNOWN, "connection refused")), look())
    assert (await looked(eyes))[DEMO].observation.connection.message == "connection refused"


async def test_a_look_does_not_wait_for_a_cluster_that_nobody_has_initialized(look: MakeLook) -> None:
    eyes = Eyes(look(connection=NOT_TRIED, initialized=False), look())
    assert not (await looked(eyes))[DEMO].observation.initialized


async def test_a_look_gives_up_waiting_after_its_timeout(look: MakeLook) -> None:
    eyes = Eyes(look(connection=NOT_TRIED))
    assert (await looked(eyes, timeout=0.01))[DEMO].observation.connection is NOT_TRIED


async def test_what_goes_while_one_waits_is_left_out(look: MakeLook) -> None:
    assert await looked(Eyes(look(connection=NOT_TRIED), None)) == {}


async def test_changes_are_told_together_and_silence_ends_by_itself() -> None:
    eyes = Eyes(None)
    eyes.changed.put_nowait(DEMO)
    eyes.changed.put_nowait(DEMO)
    assert await changed(eyes, 5) == {DEMO}  # type: ignore[arg-type]  # as much of an Inspector as is asked
    assert await changed(eyes, 0.01) == set()  # type: ignore[arg-type]


async def looked(eyes: Eyes, timeout: float = 30) -> dict[Request, Look]:
    async with asyncio.timeout(10):
        return await look(eyes, [DEMO], timeout)  # type: ignore[arg-type]  # as much of an Inspector as is asked
