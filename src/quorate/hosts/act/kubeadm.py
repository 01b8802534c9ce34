"""Runs kubeadm on a host: one at a time, its output in a log on the host, and its progress reported while it runs.

kubeadm writes to its log and not to us: a program in Go that writes to a connection which was cut is ended by SIGPIPE, half-way through whatever it was doing.
So it goes on to its end when quorate is interrupted, and the next attempt finds a host that is complete, or waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from quorate.core.text import without_passwords
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.tools import Host, Tools
from quorate.hosts.connect.ssh.errors import SshError
from quorate.hosts.connect.ssh.scripts import Outcome
from quorate.hosts.render.prerequisites import with_proxies

LOG = "/var/log/quorate/kubeadm.log"
LOCK = "/run/quorate-kubeadm.lock"
DEADLINE = 7500.0
"""Seconds for one kubeadm, 125 minutes: more than all that it may wait for itself. Ended earlier it would leave a host half-way that it is about to put back.

The longest is `upgrade apply`, 121 minutes: 1 for its test Job; 15 for the hashes of three static Pods; 5 to find etcd and ask a silent member; 15 for etcd's
hash before, its new one, and Running; 3 to find etcd again; 22 for its members to answer (10 tries of 2 minutes, 15 s apart); 30 for the new hash and Running
of three components; 30 for as many writes of configuration and add-ons. A join may take 61 minutes, an init 43.
Source: kubeadm 1.34 and 1.35, cmd/kubeadm/app/constants/constants.go, phases/upgrade/staticpods.go, phases/etcd/local.go, util/apiclient.
"""
TIMEOUT = 600
"""Seconds to wait for a kubeadm that an earlier, interrupted attempt has left running."""
BUSY = 75
"""The status that says that it has not ended by then."""
_LOOK_EVERY = 1.0
_LOOK_DEADLINE = 5.0
_WAIT = f"exec 9>>{LOCK}\nflock -w {TIMEOUT} 9"
_LOOK = f"tail -n 1 -- {LOG} 2>/dev/null || :"


@dataclass(frozen=True, slots=True)
class Command:
    """`arguments` for kubeadm, with what is done before it, `then` where it succeeded, and `after` whatever came of it; all three are sh, may hold secrets, and
    run under the same lock. `after` has no single quotes.

    `doing` completes the sentence "... failed".
    """

    arguments: str
    doing: str
    before: str = field(default="", repr=False)
    then: str = field(default="", repr=False)
    after: str = field(default="", repr=False)
    stdin: bytes = field(default=b"", repr=False)


async def run(tools: Tools, name: str, command: Command) -> None:
    """Run kubeadm on the host to its end. Raises StepFailed with what kubeadm complains of, and SshErrors; after these it may run on."""
    host = tools.access.ssh(name)
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(_tell(tools, host, name))
        outcome = await _outcome(host, script(tools, command), command.stdin)
        watching.cancel()
    if isinstance(outcome, SshError | StepFailed):
        raise outcome
    if outcome.exit_status == BUSY:
        raise _busy(name)
    if outcome.exit_status:
        cause, remedy = explanation(outcome.complaints)
        raise StepFailed(name, f"{command.doing} failed: {cause}", remedy)


async def wait_for_others(tools: Tools, name: str) -> None:
    """Wait until no kubeadm runs there that an earlier attempt may have left. Raises StepFailed where that takes too long."""
    outcome = await tools.access.ssh(name).change(_WAIT, deadline=TIMEOUT + 30.0)
    if outcome.exit_status:
        raise _busy(name)


def _busy(name: str) -> StepFailed:
    remedy = f"Look at {LOG} there, and end it if it hangs"
    return StepFailed(name, f"another kubeadm has been running on the host for more than {TIMEOUT} s", remedy)


def script(tools: Tools, command: Command) -> str:
    """The whole of what runs on the host. `flock` lets its lock go with the last process that has the descriptor, however that ends."""
    body = _SCRIPT.format(
        before=command.before,
        then=command.then,
        after=command.after or ":",
        arguments=command.arguments,
        log=LOG,
        lock=LOCK,
        timeout=TIMEOUT,
        busy=BUSY,
        deadline=int(DEADLINE),
    )
    return with_proxies(tools.manifest.proxy, body)


def explanation(lines: Sequence[str]) -> tuple[str, str]:
    """What kubeadm complains of in the last lines of its log, and the way out."""
    refusals = [line.removeprefix("[ERROR ").replace("]", "", 1) for line in lines if line.startswith("[ERROR ")]
    if refusals:
        return (
            f"kubeadm's preflight refuses the host: {'; '.join(dict.fromkeys(refusals))}",
            "Correct that on the host, then run the same command again",
        )
    errors = [line for line in lines if line.lower().startswith(("error", "error:"))]
    cause = (errors or lines or ["kubeadm gave no reason"])[-1]
    return cause.removeprefix("error: "), f"The whole log is {LOG} on the host; run the same command again to continue from here"


async def _outcome(host: Host, text: str, stdin: bytes) -> Outcome | SshError | StepFailed:
    """An error is handed back, and raised outside of the TaskGroup, which would wrap it."""
    try:
        return await host.change(text, stdin=stdin, deadline=DEADLINE + TIMEOUT)
    except (SshError, StepFailed) as error:
        return error


async def _tell(tools: Tools, host: Host, name: str) -> None:
    """Report the last line of the log each second, when it is another."""
    told = ""
    while True:
        await tools.waits.pause(_LOOK_EVERY)
        with suppress(SshError):
            outcome = await host.look(_LOOK, deadline=_LOOK_DEADLINE)
            line = without_passwords(" ".join(outcome.lines))[:200]
            if line and line != told:
                told = line
                tools.report(name, f"kubeadm: {line}")


# The log is emptied under the lock: it is of this kubeadm alone. Only its end is sent, since it may be longer than a script may write.
_SCRIPT = """\
umask 077
mkdir -p -- "$(dirname -- {log})"
exec 9>>{lock}
if ! flock -w {timeout} 9; then
    exit {busy}
fi
trap '{after}' EXIT
trap 'exit 1' HUP INT TERM
{before}
umask 022
: >{log}
chmod 0600 {log}
status=0
timeout -k 5 {deadline} kubeadm {arguments} >>{log} 2>&1 || status=$?
if [ "$status" -ne 0 ]; then
    tail -n 60 -- {log} >&2
    exit "$status"
fi
{then}
"""
