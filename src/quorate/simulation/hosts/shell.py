"""The shell of a simulated host: it reads the scripts that steps send, part by part, and does what each is known to do to a machine (`lines.py`).

No shell runs. What a script is not known to do is not done, and a script of which nothing is known raises AssertionError.
"""

from __future__ import annotations

import asyncio
import base64
import re

from quorate.hosts.act import kubeadm as act
from quorate.hosts.act.initialize import SUPER_ADMIN
from quorate.hosts.connect.ssh.errors import NoAnswer, NoSuchFile
from quorate.hosts.connect.ssh.scripts import Outcome
from quorate.hosts.probe.facts import INITIALIZING
from quorate.hosts.render.kubeadm_configuration import DISCOVERY_PATH, INIT_PATH
from quorate.hosts.render.provider_files import PATHS
from quorate.simulation.hosts import material
from quorate.simulation.hosts.acts import Action
from quorate.simulation.hosts.kubeadm import Kubeadm, Wanted
from quorate.simulation.hosts.lines import known
from quorate.simulation.hosts.looks import looked
from quorate.simulation.hosts.machines import Machine
from quorate.simulation.hosts.material import PKI
from quorate.simulation.hosts.reach import Reach
from quorate.simulation.hosts.scripts import Refused, Script
from quorate.simulation.hosts.static_pods import Containers

_UNIT = re.compile(r"'?(kubelet|containerd)\.service'?")


class Host:
    """One host of one run (`quorate.hosts.act.tools.Host`)."""

    def __init__(self, reach: Reach, name: str) -> None:
        self._reach, self.name = reach, name

    async def change(self, script: str, *, stdin: bytes = b"", deadline: float) -> Outcome:  # noqa: ARG002
        """Run a script that changes the machine. Raises SshErrors, and StepFailed where it is not admitted."""
        shell = Shell(self._reach, self._machine())
        try:
            return Outcome(0, await self.run(lambda: shell.run(script), kubeadm=act.LOCK in script), b"")
        except Refused as refused:
            return Outcome(refused.status, b"", f"{refused}".encode())

    async def look(self, script: str, *, deadline: float) -> Outcome:  # noqa: ARG002
        """Run a script that changes nothing."""
        await self._reach.travels()
        machine = self._machine()
        try:
            return Outcome(0, looked(self._reach, machine, script), b"")
        except Refused as refused:
            return Outcome(refused.status, b"", f"{refused}".encode())

    async def read_file(self, path: str) -> bytes:
        """A file of encryption providers: no step reads others."""
        await self._reach.travels()
        disk = self._machine().disk
        if path != PATHS[0] or disk.providers is None:
            raise NoSuchFile(self.name, f"there is no file {path}", exit_status=44)
        return material.written(disk.providers)

    async def run(self, script: Script, *, kubeadm: bool = False) -> bytes:
        """Have the machine do this, behind the fence; the run may be stopped right before it is sent, and before it hears of its end."""
        reach = self._reach
        machine = self._machine()
        until = reach.fence.confirm(machine)
        await reach.fence.while_stopped()

        def admit(machine: Machine) -> None:
            reach.fence.admit(machine, until)
            reach.tells(Action.SCRIPT, machine)

        written = await reach.scripts.run(machine, script, owner=reach.actor.name, admit=admit, kubeadm=kubeadm)
        await reach.fence.while_stopped()
        return written

    def _machine(self) -> Machine:
        machine = self._reach.reached(self.name)
        if machine is None:
            raise NoAnswer(self.name, "no answer")
        return machine


class Shell:
    """One script on a machine, for the step that it was sent for, and resting on what was known then."""

    def __init__(self, reach: Reach, machine: Machine) -> None:
        self._site, self._machine = reach.site, machine
        self._reach, self._random = reach, reach.random
        self._kubeadm = Kubeadm(reach.site, machine, reach.actor, reach.witness, reach.random)
        self._containers = Containers(reach.site, machine, self._kubeadm.tell)
        self._files: dict[str, str] = {}  # those that only this script reads
        self._placed = False

    async def run(self, script: str) -> bytes:
        """Do what its lines say, one after the other. Raises Refused where one fails."""
        for part in known(script):
            if part.lastgroup == "kubeadm":
                await self._run_kubeadm(part["arguments"], part["unless"])
                if part["arguments"].startswith("reset "):
                    break  # what follows takes away what kubeadm leaves, which is one here
            else:
                await self._do(part)
        return b""

    async def _do(self, part: re.Match[str]) -> None:
        match part.lastgroup:
            case "place":
                self._placed = self._placed or await self._takes(0.05, 0.3)
                await self._place(part["path"].strip("'"), base64.b64decode(part["content"]))
            case "remove":
                for path in part["gone"].split():
                    self._remove(path)
            case "start":
                await self._start(_UNIT.findall(part["units"]))
            case "each":
                self._containers.each(part["chosen"], part["command"])
            case "until_refused":
                await self._containers.until_refused()
            case "once_quiet":
                await self._containers.end_once_quiet(set(part["ids"].split()), gone_is_enough=part["while"] != ":")

    async def _takes(self, least: float, most: float) -> bool:
        await asyncio.sleep(self._random.uniform(least, most))
        return True

    async def _place(self, path: str, content: bytes) -> None:
        disk = self._machine.disk
        if path == f"{PKI}ca.crt":
            disk.ca = material.ca_of(content, self._site.cas)
            await self._takes(0.01, 0.1)
        elif path in PATHS:
            disk.providers = material.read(content)
            await self._takes(0.01, 0.1)
        elif path == INITIALIZING:
            disk.initializing = True
            await self._takes(0.01, 0.1)
        else:
            self._files[path] = content.decode()

    def _remove(self, path: str) -> None:
        if path == INITIALIZING:
            self._machine.disk.initializing = False
        elif path == SUPER_ADMIN:
            self._machine.disk.super_admin_conf = False

    async def _start(self, units: list[str]) -> None:
        await self._takes(0.2, 2.0)
        self._reach.tells(Action.START, self._machine)
        if "containerd" in units:
            self._machine.containerd_runs = True
        if "kubelet" in units:
            self._site.start_kubelet(self._machine)
        self._site.settle()

    async def _run_kubeadm(self, arguments: str, unless: str | None) -> None:
        kubeadm = self._kubeadm
        match arguments.split():
            case ["certs", "renew", "super-admin.conf"] if unless == SUPER_ADMIN:
                pass  # it is of no certificate that anybody looks at
            case ["certs", "renew", certificate]:
                await kubeadm.renew(certificate)
            case ["init", "--config", path, *options] if path == INIT_PATH:
                await kubeadm.init(self._wanted(path), resume="--skip-phases=preflight" in options)
            case ["join", "--config", path]:
                wanted = self._wanted(path)
                await (kubeadm.join(wanted) if wanted.control_plane else kubeadm.join_worker(wanted))
            case ["reset", "--force", "--skip-phases=remove-etcd-member", *_]:
                await kubeadm.reset()
            case _:
                raise AssertionError(f"kubeadm {arguments} is not known here")

    def _wanted(self, path: str) -> Wanted:
        """What the configuration says, and the kubeconfig beside it."""
        text, discovery = self._files[path], self._files.get(DISCOVERY_PATH, "")
        documents = {_found(document, r"^kind: (\S+)"): document for document in text.split("\n---\n")}
        ca = _found(discovery, r"certificate-authority-data: (\S+)")
        return Wanted(
            address=_found(text, r"(?:advertiseAddress:|name: node-ip\n +value:) (\S+)"),
            token=_found(discovery or text, r"token: (\w{6})\."),
            ca=material.ca_of(base64.b64decode(ca), self._site.cas) if ca else 0,
            control_plane="\ncontrolPlane:" in text,
            documents=documents,
        )


def _found(text: str, pattern: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    return found[1] if found else ""
