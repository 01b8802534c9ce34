"""One script on one host: sent on stdin, run by sh, ended in time, its output bounded.

What goes into argv is only `sudo -n timeout ... sh -s`: scripts and data, which may hold secrets, travel on stdin, and data reaches the script through a
pipe, never through a file. The script is one compound command, so that sh has read all of it before any of it runs: one that arrives cut in half does
nothing, and no program in it can swallow the rest of it. `timeout` on the host ends the script at its deadline even when the connection is gone by then.
"""

from __future__ import annotations

import asyncio
import base64
import re
import signal
from contextlib import suppress
from dataclasses import dataclass, field

import asyncssh

from quorate.core.text import lines, without_passwords
from quorate.hosts.connect.ssh.errors import ConnectionCut, DeadlineExceeded, OutputTooLong, SessionRefused, SudoRefused

LIMIT = 1 << 20
"""Bytes of stdout, and of stderr, that a script may write."""
KILL_AFTER = 5
"""Seconds between SIGTERM at the deadline and SIGKILL."""

_PREAMBLE = 'export LC_ALL=C PATH="$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/bin"\nset -eu'
"""English answers; programs that non-login shells of RHEL (sbin) and Flatcar (/opt/bin) do not find; and no step after one that failed."""
_ENDED_BY_TIMEOUT = (124, 128 + signal.SIGKILL)  # coreutils' timeout: after TERM, after KILL
_CHUNK = 64 * 1024
_SUDO_REFUSES = re.compile(  # sudo 1.8 and 1.9, sudo-rs, and env where there is no sudo
    r"sudo(-rs)?: .*(password|terminal|tty|authentication)|is not in the sudoers file|^Sorry, user .* (is not allowed|may not run)"
    r"|^env: .?sudo.?: No such file"
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a script ended; where a signal ended it, the status is 128 and the signal's number, as in sh. What it wrote may be secret and is not in the repr."""

    exit_status: int
    stdout: bytes = field(repr=False)
    stderr: bytes = field(repr=False)

    @property
    def lines(self) -> tuple[str, ...]:
        """What it wrote to stdout, for readers: each line that says something, printable whatever the host sent."""
        return lines(self.stdout)

    @property
    def complaints(self) -> tuple[str, ...]:
        """What it wrote to stderr, likewise, with no password of a URL."""
        return tuple(map(without_passwords, lines(self.stderr)))

    @property
    def last_words(self) -> str:
        """The last line of stderr that says something, at most 300 characters."""
        complaints = self.complaints
        return complaints[-1][:300] if complaints else "no message"


@dataclass(frozen=True, slots=True)
class Order:
    """A script with everything that it takes. `deadline` and `grace` are seconds; `script` and `stdin` may be secret."""

    script: str = field(repr=False)
    stdin: bytes = field(repr=False)
    deadline: float
    grace: float
    sudo: bool

    @property
    def command(self) -> str:
        """What the user's login shell is given, whichever shell that is."""
        bounded = f"timeout -k {KILL_AFTER} {self.deadline:g} sh -s"
        return f"env LC_ALL=C sudo -n -- {bounded}" if self.sudo else bounded

    @property
    def payload(self) -> bytes:
        """What sh reads: the script with its data piped in (printf is part of sh, so no process list shows it), or with an empty stdin."""
        body = f"{{\n{_PREAMBLE}\n{self.script}\n}}"
        if not self.stdin:
            return f"{body} </dev/null\n".encode()
        return f"printf %s '{base64.b64encode(self.stdin).decode()}' | base64 -d | {body}\n".encode()


async def execute(connection: asyncssh.SSHClientConnection, where: str, order: Order) -> Outcome:
    """Run the script to its end; any exit status is an outcome. Never repeated by itself.

    Raises ConnectionCut, DeadlineExceeded, OutputTooLong, SessionRefused or SudoRefused. Cancelling drops the script's channel, and the host ends the script
    at its deadline at the latest.
    """
    now = asyncio.get_running_loop().time
    started = now()
    try:
        async with asyncio.timeout(order.deadline + order.grace):
            outcome = await _converse(connection, where, order)
    except TimeoutError:
        cause = f"a script did not end within {order.deadline:g} s, and the host did not say that it was ended"
        raise DeadlineExceeded(where, cause, "Look at the host before trying again: the script may still run", ended=False) from None
    if outcome.exit_status in _ENDED_BY_TIMEOUT and now() - started >= order.deadline:
        cause = f"a script did not end within {order.deadline:g} s and was ended; it last wrote: {outcome.last_words}"
        raise DeadlineExceeded(where, cause, ended=True)
    if order.sudo and outcome.exit_status in (1, 127) and (words := _sudo_refusal(outcome.complaints)):
        remedy = "Let the user run sudo without a password and a terminal (NOPASSWD in sudoers, no requiretty), or log in as root"
        raise SudoRefused(where, f"sudo refuses: {words}", remedy)
    return outcome


async def _converse(connection: asyncssh.SSHClientConnection, where: str, order: Order) -> Outcome:
    process = await _start(connection, where, order.command)
    try:
        _send(process, order.payload)
        async with asyncio.TaskGroup() as both:
            stdout = both.create_task(_read(process, process.stdout))
            stderr = both.create_task(_read(process, process.stderr))
        if max(len(stdout.result()), len(stderr.result())) > LIMIT:
            raise OutputTooLong(
                where, f"a script wrote more than {LIMIT >> 20} MiB and was dropped", "Make it write less, or write to a file on the host"
            )
        await process.wait_closed()
        return Outcome(_exit_status(process, where), stdout.result(), stderr.result())
    finally:
        _end(process)


async def _start(connection: asyncssh.SSHClientConnection, where: str, command: str) -> asyncssh.SSHClientProcess[bytes]:
    try:
        return await connection.create_process(command, encoding=None)
    except (asyncssh.Error, OSError) as error:
        reason = error.reason if isinstance(error, asyncssh.Error) else str(error)
        if connection.is_closed() or not isinstance(error, asyncssh.ChannelOpenError):
            raise ConnectionCut(where, f"the connection ended while a script was started: {reason}") from None
        raise SessionRefused(
            where, f"no shell is started: {reason}", "Check the user's shell, and ForceCommand and MaxSessions of sshd"
        ) from None


def _send(process: asyncssh.SSHClientProcess[bytes], payload: bytes) -> None:
    try:
        process.stdin.write(payload)
        process.stdin.write_eof()
    except BrokenPipeError:
        return  # it has ended already (sudo refused, say): what it wrote and its status tell why


async def _read(process: asyncssh.SSHClientProcess[bytes], stream: asyncssh.SSHReader[bytes]) -> bytes:
    """Everything up to the end, or one piece over the limit, after which the process is ended and with it the other stream."""
    content = bytearray()
    try:
        while len(content) <= LIMIT and (data := await stream.read(_CHUNK)):
            content += data
    except (asyncssh.Error, OSError):
        return bytes(content)  # the connection is gone: there will be no exit status either, which says it
    if len(content) > LIMIT:
        _end(process)
    return bytes(content)


def _exit_status(process: asyncssh.SSHClientProcess[bytes], where: str) -> int:
    if process.exit_signal is not None:
        number = signal.Signals.__members__.get(f"SIG{process.exit_signal[0]}", signal.SIGKILL)
        return 128 + number
    if process.exit_status is None:
        raise ConnectionCut(
            where, "the connection ended before the script did", "It is not known what it did: look at the host before you run it again"
        )
    return process.exit_status


def _end(process: asyncssh.SSHClientProcess[bytes]) -> None:
    """End the process, unless it has ended: OpenSSH 7.9 and later pass the signal on to what still belongs to the user. Idempotent."""
    if process.exit_status is None and process.exit_signal is None:
        with suppress(OSError):  # the channel is closed already
            process.kill()
    process.channel.abort()


def _sudo_refusal(complaints: tuple[str, ...]) -> str:
    return next((line for line in complaints if _SUDO_REFUSES.search(line)), "")
