"""The lock of one host: a file that says whose it is, and a guard that every script which changes the host holds from its first act to its last.

The guard is an flock. Who takes the lock from nobody, or from a run that no longer counts, needs it alone; the scripts of the run that has the lock share it,
and so does the renewal. So the lock is never taken while a script of an earlier run still changes the host, whatever became of that run; and a script that
arrives when somebody else has taken the lock, because its run was stopped on its way, finds another id there and does nothing.

The lock's age is counted by the host since its start, which no clock that is set can change.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from quorate.hosts.connect.ssh.errors import SshError
from quorate.hosts.connect.ssh.host import Host
from quorate.hosts.connect.ssh.scripts import Outcome
from quorate.hosts.render.shell import quoted
from quorate.hosts.run.operator import Holder, decode

PATH = "/run/quorate/lock.json"
"""Below /run: once a host has started anew, no run's steps go on there."""
GUARD = f"{PATH}.guard"
LASTS = 60
"""Seconds after its last renewal for which a lock counts."""
GUARD_WAIT = 5
"""Seconds that a script of the lock waits for the guard: those of others that only look or renew have it for milliseconds."""
_ANSWER = 10.0  # seconds for a script of the lock beside its wait for the guard
_THEIRS, _LOST, _BUSY = 76, 77, 75
_FENCED = 79
_SECONDS = re.compile(rb"[0-9]{1,10}")
_FENCE = "quorate-fence:"  # what the fence's last words begin with, so that no other script's status 79 is taken for its


@dataclass(frozen=True, slots=True)
class Taken:
    """The lock is this run's, from now on for LASTS. `at` is for how many seconds the host had been up then; None where nothing was written."""

    at: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Theirs:
    """It is somebody else's; None left no name."""

    holder: Holder | None


@dataclass(frozen=True, slots=True)
class Lost:
    """This run held it, and nobody does now: it ran out and somebody has had it since, or the host was started anew."""


@dataclass(frozen=True, slots=True)
class Busy:
    """Nobody has it, and these programs of an earlier run still change the host."""

    programs: str


@dataclass(frozen=True, slots=True)
class Unasked:
    """The host, or an API server for the Lease, cannot be asked."""

    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The host was asked and cannot lock: its disk is full, or it has no flock."""

    reason: str


Answer: TypeAlias = Taken | Theirs | Lost | Busy | Unasked | Failed


class Refusal(Enum):
    """Why the fence let a script do nothing."""

    THEIRS = "theirs"
    LOST = "lost"
    RUN_OUT = "run-out"
    LATE = "late"
    TAKEN_NOW = "taken-now"


async def take(host: Host, holder: Holder, *, dead: str = "", wait: int = GUARD_WAIT) -> Answer:
    """Take it where it is free, has run out or is that of the run `dead`; wait so many seconds for scripts of earlier runs to end. Never Lost."""
    return await _ask(host, _TAKE, holder, dead=dead, wait=wait, content=holder.encode())


async def renew(host: Host, holder: Holder) -> Answer:
    """Let it count anew, as long as it is this run's. Never Busy."""
    return await _ask(host, _RENEW, holder, content=holder.encode())


async def drop(host: Host, holder: Holder) -> Answer:
    """Give it back where it is this run's. What still runs there goes on to hold the guard. Idempotent."""
    return await _ask(host, _DROP, holder)


async def look(host: Host, holder: Holder) -> Answer:
    """Whose it is, Theirs or Taken: this run holds it, or nobody does. Changes nothing."""
    return await _ask(host, _LOOK, holder)


def fenced(script: str, holder: Holder, *, until: int) -> str:
    """The script behind the fence: it begins only while this run has the host's lock, and the lock cannot be taken by another before it has ended.

    That holds for everything it has started too, as long as that keeps the descriptor 8, which a program inherits. Nor does it begin once the host has been up
    for `until` seconds: somebody may have been confirmed by then who does not reach this host.
    """
    return f"{_FENCE_SCRIPT.format(**_names(holder), until=until)}{script}"


def refusal(outcome: Outcome) -> tuple[Refusal, Holder | None] | None:
    """Why the fence let the script do nothing, and whose the lock is; None where the script ran."""
    said = outcome.last_words
    if outcome.exit_status != _FENCED or not said.startswith(_FENCE):
        return None
    why = said.removeprefix(_FENCE).strip()
    return next((each for each in Refusal if each.value == why), Refusal.LOST), decode(outcome.stdout)


async def _ask(host: Host, script: str, holder: Holder, *, dead: str = "", wait: int = GUARD_WAIT, content: bytes = b"") -> Answer:
    text = script.format(**_names(holder), dead=quoted(dead), wait=wait)
    try:
        outcome = await host.run(text, stdin=content, deadline=wait + _ANSWER)
    except SshError as error:
        return Unasked(error.cause)
    match outcome.exit_status:
        case 0 if script in (_TAKE, _RENEW):
            return (
                Taken(int(outcome.stdout)) if _SECONDS.fullmatch(outcome.stdout) else Failed("it does not say for how long it has been up")
            )
        case 0:
            return Taken()
        case 76:
            return Theirs(decode(outcome.stdout))
        case 77 if script is _RENEW:
            return Lost()
        case 75 if script is _TAKE:
            return Busy(" ".join(outcome.lines) or "a program that has just ended")
    return Failed(f"{outcome.last_words} (status {outcome.exit_status})")


def _names(holder: Holder) -> dict[str, str | int]:
    return {"path": PATH, "guard": GUARD, "lasts": LASTS, "id": quoted(holder.id)}


# The file's first line is the holder's id and the host's uptime at the last renewal; the rest is the holder in JSON. It is replaced as a whole.
_FOUND = """\
found='' at=0
if [ -e {path} ]; then read -r found at <{path} || :; fi
read -r uptime rest </proc/uptime
age=$((${{uptime%%.*}} - ${{at:-0}}))
"""
_THEIRS_COUNTS = f"""\
{_FOUND}
if [ -n "$found" ] && [ "$found" != {{id}} ] && [ "$found" != {{dead}} ] && [ "$age" -lt {{lasts}} ]; then
    tail -n +2 -- {{path}}
    exit {_THEIRS}
fi
"""
_OPENED = """\
umask 022
mkdir -p -- "$(dirname -- {path})"
exec 8>>{guard}
"""
_WRITTEN = """\
printf '%s %s\\n%s\\n' {id} "${{uptime%%.*}}" "$content" >{path}.$$
mv -f -T -- {path}.$$ {path}
printf %s "${{uptime%%.*}}"
"""
_LOOK = _THEIRS_COUNTS
# Who has the guard has it as descriptor 8. `$$` may be the shell that this one is a part of, so that /proc/self tells which process is this one.
_TAKE = f"""\
content=$(cat)
{_THEIRS_COUNTS}
{_OPENED}
free=0
flock -w {{wait}} 8 || free=$?
if [ "$free" = 1 ]; then
    for file in /proc/[0-9]*/fd/8; do
        process=${{{{file%/fd/8}}}}
        if [ "$file" -ef {{guard}} ] && ! [ "$process" -ef /proc/self ]; then
            printf '%s (%s) ' "$(cat "$process/comm" 2>/dev/null)" "${{{{process#/proc/}}}}"
        fi
    done
    exit {_BUSY}
fi
[ "$free" = 0 ]
{_THEIRS_COUNTS}
{_WRITTEN}
"""
_SHARED = f"""\
{_OPENED}
if ! flock -s -w {{wait}} 8; then
    echo 'the guard of the lock was not free in time' >&2
    exit 1
fi
"""
_RENEW = f"""\
content=$(cat)
{_SHARED}
{_THEIRS_COUNTS}
[ "$found" = {{id}} ] || exit {_LOST}
{_WRITTEN}
"""
_DROP = f"""\
{_SHARED}
{_FOUND}
if [ "$found" = {{id}} ]; then rm -f -- {{path}}; fi
"""
# Nothing is written, so that a full disk keeps nobody from being refused.
_FENCE_SCRIPT = f"""\
fence() {{{{
    echo "{_FENCE} $1" >&2
    exit {_FENCED}
}}}}
[ -e {{guard}} ] || fence {Refusal.LOST.value}
exec 8<{{guard}}
flock -s -w {GUARD_WAIT} 8 || fence {Refusal.TAKEN_NOW.value}
{_FOUND}
if [ "$found" != {{id}} ]; then
    [ -n "$found" ] && [ "$age" -lt {{lasts}} ] || fence {Refusal.LOST.value}
    tail -n +2 -- {{path}}
    fence {Refusal.THEIRS.value}
fi
[ "$age" -lt {{lasts}} ] || fence {Refusal.RUN_OUT.value}
[ "${{{{uptime%%.*}}}}" -lt {{until}} ] || fence {Refusal.LATE.value}
"""
