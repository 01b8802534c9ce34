"""What the probe cannot ask, because it depends on the manifest: which of the files that a host is to have it lacks, and what is in those that it has."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from quorate.core.health import Absent, Unknown
from quorate.hosts.connect.ssh.errors import SshError
from quorate.hosts.connect.ssh.host import Host
from quorate.hosts.probe.facts import Fact
from quorate.hosts.render.host_files import HostFile, differing
from quorate.hosts.render.shell import quoted

API_SERVER = "/etc/kubernetes/manifests/kube-apiserver.yaml"
KUBELET_CONFIGURATION = "/var/lib/kubelet/config.yaml"
DEADLINE = 20.0
"""Seconds; it reads a dozen small files."""
_LARGEST = 256 * 1024
"""Bytes of a file that are read at most: beyond that it is none of those that are looked for."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to look at on a host: files that are to be there exactly so, and paths of files to be read; `stale` is a script that prints the paths of files that
    are not to be there any more, one a line. Of `read_at_start` it is told which its API server has yet to read.
    """

    exactly: Sequence[HostFile] = ()
    contents: Sequence[str] = ()
    stale: str = ""
    read_at_start: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was found: the paths of files that are missing or have another content, owner or mode, the contents of those that were to be read, and the paths of
    files that are not to be there any more.

    Contents may be secret, and are not in the repr. Each is Unknown of a host that could not be asked.
    """

    differing: tuple[str, ...] | Unknown = ()
    contents: Mapping[str, Fact[bytes]] = field(default_factory=dict, repr=False)
    stale: tuple[str, ...] = ()
    younger: frozenset[str] = frozenset()  # paths of files that changed after the API server that runs was started

    def content(self, path: str) -> Fact[bytes]:
        """The content of a file that was to be read."""
        return self.contents.get(path, Unknown(f"{path} was not looked at"))


async def inspect(host: Host, wanted: Wanted) -> Inspection:
    """Look at one host, in one script that changes nothing. Raises nothing of the host."""
    if not wanted.exactly and not wanted.contents:
        return Inspection()
    try:
        outcome = await host.run(script(wanted), deadline=DEADLINE)
    except SshError as failure:
        return _unknown(wanted, Unknown(f"its files could not be looked at: {failure.cause}", failure.remedy))
    if outcome.exit_status:
        return _unknown(wanted, Unknown(f"its files could not be looked at: {outcome.last_words} (status {outcome.exit_status})"))
    return parse(outcome.stdout, wanted)


async def inspect_all(hosts: Mapping[str, Host], wanted: Mapping[str, Wanted]) -> Mapping[str, Inspection]:
    """Look at these hosts at once, at each for what is wanted of it."""
    async with asyncio.TaskGroup() as group:
        asked = {name: group.create_task(inspect(host, wanted[name])) for name, host in hosts.items()}
    return {name: task.result() for name, task in asked.items()}


def script(wanted: Wanted) -> str:
    """Prints `content PATH BASE64`, or `content PATH` for a file that is not there, `younger PATH` for one that the API server has not read, then the path of
    each file that differs, and after a line `stale` those that are not to be there, one a line.
    """
    contents = (f"content {quoted(path)}" for path in wanted.contents)
    younger = [_YOUNGER, *(f"younger {quoted(path)}" for path in wanted.read_at_start)] if wanted.read_at_start else []
    return "\n".join((_CONTENT, *contents, *younger, differing(wanted.exactly), f"echo {_STALE}", wanted.stale))


def parse(output: bytes, wanted: Wanted) -> Inspection:
    """What the script's whole output says. A file of which it says nothing is unknown."""
    contents: dict[str, Fact[bytes]] = {path: Unknown(f"the host did not tell of {path}") for path in wanted.contents}
    expected = {file.path for file in wanted.exactly}
    differ, younger = [], []
    told = output.decode(errors="replace").splitlines()
    end = told.index(_STALE) if _STALE in told else len(told)
    for line in told[:end]:
        words = line.split(" ")
        if words[0] == "content" and words[1:2] and words[1] in contents:
            contents[words[1]] = _decoded(words[1], words[2:])
        elif words[0] == "younger" and words[1:2] and words[1] in wanted.read_at_start:
            younger.append(words[1])
        elif line in expected:
            differ.append(line)
    return Inspection(tuple(differ), contents, tuple(told[end + 1 :]), frozenset(younger))


def _decoded(path: str, words: Iterable[str]) -> Fact[bytes]:
    encoded = "".join(words)
    if not encoded:
        return Absent()
    try:
        return base64.b64decode(encoded.removeprefix("="), validate=True)
    except ValueError:  # binascii.Error among them, and what is not ASCII
        return Unknown(f"{path} was changed or cut off on the way")


def _unknown(wanted: Wanted, why: Unknown) -> Inspection:
    return Inspection(why, dict.fromkeys(wanted.contents, why))


_STALE = "stale"
# An `=` before the base64 tells an empty file from none.
_CONTENT = f"""\
content() {{
    if [ -e "$1" ]; then
        printf 'content %s =' "$1"
        head -c {_LARGEST} -- "$1" | base64 | tr -d '\\n'
        echo
    else
        printf 'content %s\\n' "$1"
    fi
}}"""
# The oldest that runs: one that is about to end still answers. Those of other clusters, in Pods, have networks of their own.
OLDEST_API_SERVER = """\
own=$(ps -p 1 -o netns= 2>/dev/null | tr -d ' ') || own=
started=$(ps -C kube-apiserver -o netns=,etimes= 2>/dev/null | awk -v own="$own" 'own ~ /^-?$/ || $1 == own { print $2 }' | sort -n | tail -n 1) || started=
"""
"""sh that sets `started`: for how many seconds the host's own API server runs, empty where none does."""
_YOUNGER = f"""\
{OLDEST_API_SERVER}younger() {{
    if [ -n "$started" ] && [ -e "$1" ] && [ "$(stat -c %Y -- "$1")" -gt "$(($(date +%s) - started))" ]; then printf 'younger %s\n' "$1"; fi
}}"""
