"""SSH servers on loopback: what they are told runs in the real sh, in a folder of their own; and an agent that knows one key."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh

USER = "operator"

Serve = Callable[["asyncssh.SSHServerProcess[bytes]"], Awaitable[None]]


@dataclass
class Machine:
    """One host: `commands` are those it was given, `sent` what arrived on their stdin, `forwarded` the addresses that streams were opened to."""

    folder: Path
    authorized: list[asyncssh.SSHKey]
    host_keys: list[asyncssh.SSHKey] = field(default_factory=lambda: [asyncssh.generate_private_key("ssh-ed25519")])
    host_certificates: list[asyncssh.SSHCertificate] = field(default_factory=list)
    cas: list[asyncssh.SSHKey] = field(default_factory=list)
    user: str = USER
    serve: Serve | None = None
    shells: bool = True
    forwards: bool = True
    port: int = 0
    commands: list[str] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)
    forwarded: list[Any] = field(default_factory=list)
    connections: list[asyncssh.SSHServerConnection] = field(default_factory=list)
    _children: list[asyncio.subprocess.Process] = field(default_factory=list)
    _serving: set[asyncio.Task[Any]] = field(default_factory=set)
    _listener: asyncssh.SSHAcceptor | None = None

    async def start(self) -> None:
        """Listen, on the same port as before where there was one."""
        self.programs.mkdir(parents=True, exist_ok=True)
        self.program("sudo", f'printf "%s\\n" "$*" >>{self.folder}/sudo; shift 2; exec "$@"')
        self.program("chown", f'echo "$@" >>{self.folder}/chowned')
        self._listener = await asyncssh.listen(
            "127.0.0.1",
            self.port,
            server_factory=lambda: _Server(self),
            server_host_keys=self.host_keys,
            server_host_certs=self.host_certificates,
            process_factory=self._serve if self.shells else None,
            encoding=None,
        )
        self.port = self._listener.get_port()

    async def stop(self) -> None:
        """Stop listening, drop every connection, and end every program that still runs."""
        assert self._listener is not None
        self._listener.close()
        await self._listener.wait_closed()
        self.cut()
        for connection in self.connections:
            await connection.wait_closed()
        for child in self._children:
            with suppress(ProcessLookupError):  # it may have ended, and nobody have been told yet
                if child.returncode is None:
                    os.killpg(child.pid, signal.SIGKILL)
        await asyncio.gather(*self._serving)

    def cut(self) -> None:
        """Every connection breaks, without a word."""
        for connection in self.connections:
            connection.abort()

    @property
    def programs(self) -> Path:
        """The folder that comes first in the PATH of what runs here."""
        return self.folder / "programs"

    def program(self, name: str, script: str) -> None:
        """Put a program before the machine's own."""
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    async def _serve(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        assert process.command is not None
        self.commands.append(process.command)
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        await (self.serve or self.run)(process)

    async def run(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        """Run the command in sh, as sshd would."""
        child = await asyncio.create_subprocess_exec(
            *("/bin/sh", "-c", f"exec {process.command}"),  # so that the child leads the group that `timeout` makes
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": f"{self.programs}:{os.environ['PATH']}"},
            cwd=self.folder,
            start_new_session=True,
        )
        self._children.append(child)
        assert child.stdin
        assert child.stdout
        assert child.stderr
        async with asyncio.TaskGroup() as group:
            feeding = group.create_task(_feed(process.stdin, child.stdin))
            group.create_task(_carry(child.stdout, process.stdout))
            group.create_task(_carry(child.stderr, process.stderr))
            status = await child.wait()
            feeding.cancel()
        child.stdin.close()
        if process.is_closing():
            return
        if status < 0:
            process.exit_with_signal(signal.Signals(-status).name.removeprefix("SIG"))
        else:
            process.exit(status)


async def _feed(source: asyncssh.SSHReader[bytes], sink: asyncio.StreamWriter) -> None:
    """Until the end, or until either side is gone; a signal is not passed on, as an old sshd would not."""
    with suppress(asyncssh.Error, asyncssh.SignalReceived, OSError):
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
        sink.close()


async def _carry(source: asyncio.StreamReader, sink: asyncssh.SSHWriter[bytes]) -> None:
    """Everything, to the end; what nobody takes any more is thrown away."""
    while data := await source.read(65536):
        with suppress(asyncssh.Error, OSError):
            sink.write(data)
            await sink.drain()


class _Server(asyncssh.SSHServer):
    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._machine.connections.append(conn)

    def begin_auth(self, username: str) -> bool:
        self._machine.logins.append(username)
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return username == self._machine.user and key.public_data in [known.public_data for known in self._machine.authorized]

    def validate_ca_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return username == self._machine.user and key.public_data in [known.public_data for known in self._machine.cas]

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:  # noqa: ARG002  asyncssh's signature
        self._machine.forwarded.append((dest_host, dest_port))
        return self._machine.forwards

    def unix_connection_requested(self, dest_path: str) -> bool:
        self._machine.forwarded.append(dest_path)
        return self._machine.forwards


class Agent:
    """An ssh-agent on a Unix socket that holds the given keys. Source: draft-miller-ssh-agent, messages 11 to 14."""

    def __init__(self, path: Path, *keys: asyncssh.SSHKey) -> None:
        self.path = path
        self.signed = 0
        self._keys = {key.public_data: asyncssh.load_keypairs([key])[0] for key in keys}
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._answer, self.path)

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                request = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                writer.write(_string(self._reply(request)))
        except asyncio.IncompleteReadError:
            writer.close()

    def _reply(self, request: bytes) -> bytes:
        if request[0] == 11:
            return bytes([12]) + len(self._keys).to_bytes(4, "big") + b"".join(_string(key) + _string(b"") for key in self._keys)
        size = int.from_bytes(request[1:5], "big")
        key, data = request[5 : 5 + size], request[9 + size : -4]
        self.signed += 1
        return bytes([14]) + _string(self._keys[key].sign(data))


def _string(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content
