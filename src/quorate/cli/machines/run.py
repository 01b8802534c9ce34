"""`quorate run`: a local management cluster, the manager and a demo control plane, shown until Ctrl-C; nothing is left behind."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from quorate.cli.machines.events import Event, Sight
    from quorate.cli.render import Renderer
    from quorate.clusterapi.inspection import Inspector
    from quorate.kubernetes.client import Client
    from quorate.local import DemoCluster, LocalCluster

DEFAULT_FOLDER = Path(".local/run")
READY_TIMEOUT = 900.0
"""Seconds after which a control plane that is not ready counts as failed; upstream's provider takes 70 for three in-memory machines."""
_TICK = 1.0  # seconds between looks when nothing changes, and between movements of the clock on the display


@dataclass(frozen=True, slots=True)
class Demo:
    """What is shown, and where."""

    folder: Path
    cluster: DemoCluster
    renderer: Renderer[Event]
    stay: bool  # after it is ready
    now: Callable[[], datetime]


@click.command(name="run", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--replicas", type=click.IntRange(1), default=3, show_default=True, help="Machines of the demo control plane; an odd number.")
@click.option("--name", default="demo", show_default=True, help="Its name.")
@click.option("--version", "kubernetes_version", default="v1.34.4", show_default=True, help="Its Kubernetes version.")
@click.option(
    "--folder", type=click.Path(path_type=Path), default=DEFAULT_FOLDER, show_default=True, help="Where the cluster keeps its files."
)
@click.option("--no-wait", is_flag=True, help="Exit as soon as the control plane is ready, instead of on Ctrl-C.")
@click.option("--plain", is_flag=True, help="Print plain lines; the default when output is not a terminal or NO_COLOR is set.")
@click.option(
    "--output", "-o", type=click.Choice(["live", "json"]), default="live", show_default=True, help="json prints one event per line."
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    replicas: int,
    name: str,
    kubernetes_version: str,
    folder: Path,
    no_wait: bool,
    plain: bool,
    output: str,
) -> None:
    """Start a local management cluster with a demo control plane and show it until Ctrl-C. The programs have to be built (make programs)."""
    from quorate.cli import event_loop, logs, render
    from quorate.cli.machines.display import MACHINES
    from quorate.local import DemoCluster

    if replicas % 2 == 0:
        raise click.BadParameter("etcd gains nothing from an even number of members: choose an odd one", param_hint="--replicas")
    logs.quiet(debug=ctx.find_root().params["debug"])
    renderer = render.choose(output, MACHINES, plain=plain, stream=sys.stdout, now=_now)
    cluster = DemoCluster(name=name, replicas=replicas, version=kubernetes_version)
    event_loop.run(_run(Demo(folder, cluster, renderer, stay=not no_wait, now=_now)))


async def _run(demo: Demo) -> None:
    from quorate.cli.signals import stopping_by_signals
    from quorate.kubernetes.tasks import run_unless

    stopping = asyncio.Event()
    with stopping_by_signals(stopping):
        if not await run_unless(stopping, _present(demo)):
            demo.renderer.say("stopped; no process is left")


async def _present(demo: Demo) -> None:
    from quorate.clusterapi.connect.workloads import EtcdDialer
    from quorate.clusterapi.inspection import inspecting
    from quorate.kubernetes import kubeconfig
    from quorate.local import Options, running

    async with running(demo.folder, "quorate", Options(say=demo.renderer.say)) as cluster:
        await create(cluster.client, demo.cluster)
        demo.renderer.say(f"created cluster {demo.cluster.namespace}/{demo.cluster.name}")
        async with inspecting(kubeconfig.load(str(cluster.kubeconfig)), etcd_dialer=EtcdDialer.IN_MEMORY) as inspector:
            with demo.renderer.shown():
                await _show(demo, cluster, inspector)


async def create(client: Client, demo: DemoCluster) -> None:
    """Create the demo's objects. Raises AlreadyExists where there are any."""
    from quorate.clusterapi.connect.foreign import pluralize
    from quorate.kubernetes.resource import Resource

    for item in (*demo.objects(), demo.health_check()):
        group, _, version = item["apiVersion"].partition("/")
        resource: Resource[dict[str, Any]] = Resource(group, version, pluralize(item["kind"]), item["kind"], dict)
        await client.create(resource, item, demo.namespace, field_manager="quorate-run")


async def _show(demo: Demo, cluster: LocalCluster, inspector: Inspector) -> None:
    from quorate.cli.machines.events import changes

    began, before, ready = demo.now(), None, False
    async with aclosing(_sights(demo, inspector)) as sights:
        async for after in sights:
            for event in changes(before, after, demo.now()):
                demo.renderer.event(event)
            demo.renderer.tick()
            before = after
            _require_running(cluster)
            if not ready:
                ready = _has_become_ready(demo, cluster, after, (demo.now() - began).total_seconds())
            if ready and not demo.stay:
                return


def _has_become_ready(demo: Demo, cluster: LocalCluster, seen: Sight | None, seconds: float) -> bool:
    if seen is not None and seen.control_plane.settled and all(not machine.waits_for for machine in seen.machines):
        demo.renderer.say(hints(demo, cluster.kubeconfig, seconds))
        return True
    if seconds > READY_TIMEOUT:
        raise TimeoutError(f"{demo.cluster.name} is not ready after {READY_TIMEOUT:g} s; see the logs in {cluster.folder.path}")
    return False


async def _sights(demo: Demo, inspector: Inspector) -> AsyncGenerator[Sight | None]:
    """What is to be seen of the demo, at every change and every second; moments in which the API server does not answer are left out."""
    from quorate.cli.machines.access import changed
    from quorate.cli.machines.events import sight
    from quorate.kubernetes.controller import Request
    from quorate.kubernetes.errors import ApiError, ConnectionFailed

    request = Request(demo.cluster.namespace, demo.cluster.name)
    while True:
        try:
            finding = await inspector.look(request)
        except (ApiError, ConnectionFailed):  # its restart is part of what can be tried here
            pass
        else:
            yield sight(finding, demo.now()) if finding else None
        await changed(inspector, _TICK)


def _require_running(cluster: LocalCluster) -> None:
    from quorate.local import LocalError

    for name in cluster.ended():
        raise LocalError(f"{name} has ended; the end of {cluster.folder.log(name)}:\n{cluster.folder.log_tail(name)}")


def hints(demo: Demo, kubeconfig: Path, seconds: float) -> str:
    """What to try next, with paths that can be pasted."""
    from quorate.local.programs import find_program

    name = demo.cluster.name
    kubectl = f"{_shown(Path(find_program('kubectl')))} --kubeconfig {_shown(kubeconfig)}"
    quorate = _shown(Path(sys.executable).with_name("quorate"))
    lines = [
        f"{name}: {demo.cluster.replicas} of {demo.cluster.replicas} ready after {seconds:.0f} s",
        f"kubeconfig: {_shown(kubeconfig)}",
    ]
    if demo.stay:
        lines += [
            "try in another terminal:",
            f"  {kubectl} get kcp",
            f"  {kubectl} scale kcp {name} --replicas={demo.cluster.replicas + 2}",
            f"  {quorate} explain {name} --kubeconfig {_shown(kubeconfig)} --etcd-dialer in-memory",
            "Ctrl-C ends everything",
        ]
    return "\n".join(lines)


def _shown(path: Path) -> str:
    """A path as short as it can be from here."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _now() -> datetime:
    return datetime.now(UTC)
