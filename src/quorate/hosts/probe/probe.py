"""Asks all hosts at once what they are, each within a deadline. A host that does not answer is a state of that host, never the end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cache
from importlib import resources

from quorate.core.health import Unknown
from quorate.hosts.connect.ssh.errors import ConnectFailed, SshError
from quorate.hosts.connect.ssh.host import Host
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.probe.facts import HostFacts
from quorate.hosts.probe.parse import parse
from quorate.hosts.render.shell import quoted

SCRIPT_DEADLINE = 30.0
"""Seconds for the script alone, which takes 0.2 to 0.5: programs that are asked one after the other, and hang for their 5 s each, would not all do so."""
DEADLINE = 60.0
"""Seconds for one host: to connect (15), for the script, and for the host to end it (8)."""


DATA_FOLDER = "/var/lib/etcd"
"""Where kubeadm puts etcd's data."""


@cache
def script(folders: tuple[str, ...] = (DATA_FOLDER,)) -> str:
    """The probe's script, for `Host.run`. `folders`: where etcd's data may be if its manifest is missing; plain paths without spaces, the likeliest first."""
    text = resources.files(__package__).joinpath("probe.sh").read_text(encoding="utf-8")
    return text if folders == (DATA_FOLDER,) else f"folders={quoted(' '.join(folders))}\n{text}"


async def probe(
    hosts: Mapping[str, Host | Unreachable], *, deadline: float = DEADLINE, folders: tuple[str, ...] = (DATA_FOLDER,)
) -> Mapping[str, HostFacts | Unreachable]:
    """What each host tells of itself, by the same names, within `deadline` seconds; `folders` as `script` has them. Changes nothing; raises nothing of a host.

    Who is unreachable stays so, and who cannot be connected to becomes so. Of a host that is connected but whose probe fails, every fact that did not arrive
    is unknown with the reason, and with the remedy where a human has to do something.
    """
    async with asyncio.TaskGroup() as group:
        asked = {name: group.create_task(_state(host, deadline, folders)) for name, host in hosts.items()}
    return {name: task.result() for name, task in asked.items()}


async def _state(host: Host | Unreachable, deadline: float, folders: tuple[str, ...]) -> HostFacts | Unreachable:
    if isinstance(host, Unreachable):
        return host
    try:
        async with asyncio.timeout(deadline):
            return await _ask(host, deadline, folders)
    except TimeoutError:
        return parse(b"", Unknown(f"the probe was not over within {deadline:g} s"))
    except ConnectFailed as failure:
        return Unreachable(host.name, type(failure).__name__, f"{failure.where}: {failure.cause}", failure.remedy)
    except SshError as failure:
        return parse(b"", Unknown(f"the probe failed: {failure.cause}", failure.remedy))


async def _ask(host: Host, deadline: float, folders: tuple[str, ...]) -> HostFacts:
    outcome = await host.run(script(folders), deadline=min(SCRIPT_DEADLINE, deadline))
    if outcome.exit_status:
        return parse(outcome.stdout, Unknown(f"the probe ended with status {outcome.exit_status}: {outcome.last_words}"))
    return parse(outcome.stdout)
