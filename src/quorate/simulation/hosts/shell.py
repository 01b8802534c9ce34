"""The shell of a simulated host: it reads the scripts that steps send, part by part, and does what each is known to do to a machine (`lines.py`).

No shell runs. What a script is not known to do is not done, and a script of which nothing is known raises AssertionError.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping

from quorate.core.versions import Version
from quorate.hosts.act import kubeadm as act
from quorate.hosts.act.component_manifests import FOLDER
from quorate.hosts.act.initialize import SUPER_ADMIN
from quorate.hosts.connect.ssh.errors import NoAnswer, NoSuchFile
from quorate.hosts.connect.ssh.scripts import Outcome
from quorate.hosts.probe.facts import INITIALIZING
from quorate.hosts.render.component_configurations import PATCHES
from quorate.hosts.render.kubeadm_configuration import DISCOVERY_PATH, INIT_PATH, UPGRADE_PATH
from quorate.hosts.render.provider_files import PATHS
from quorate.simulation.hosts import material
from quorate.simulation.hosts.acts import Action
from quorate.simulation.hosts.kubeadm import Kubeadm, Wanted
from quorate.simulation.hosts.lines import known
from quorate.simulation.hosts.looks import looked
from quorate.simulation.hosts.machines import Machine
from quorate.simulation.hosts.manifests import COMPONENTS, Manifests
from quorate.simulation.hosts.material import PKI
from quorate.simulation.hosts.reach import Reach
from quorate.simulation.hosts.scripts import Refused, Script
from quorate.simulation.hosts.settings import configured
from quorate.simulation.hosts.static_pods import Containers
from quorate.workload.static_pods import Component

_NOTHING = ("function", "lock", "leftovers", "at_exit", "restarts_due")
"""Kinds of parts that do nothing here: what is defined, the lock of kubeadm, which `Scripts` has, what kubeadm leaves behind, what is done at the end of a
script that is asked to end early, which nobody does here, and restarts that are due only after another file was placed than the one which containerd has, which
no manifest here has.
"""
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
        """A file of encryption providers, or the API server's certificate: no step reads others."""
        await self._reach.travels()
        disk = self._machine().disk
        if path == f"{PKI}apiserver.crt" and disk.certificates:
            return material.serving_certificate()
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
        self._manifests = Manifests(machine, self._containers)
        self._files: dict[str, str] = {}  # those that only this script reads
        self._programs: dict[str, Version | None] = {}  # programs, to be installed
        self._placed = False
        containers, manifests = self._containers, self._manifests
        self._does: Mapping[str, Callable[[re.Match[str]], Awaitable[None] | None]] = {
            "place": self._place,
            "remove": lambda part: self._remove(part["gone"].split()),
            "stop_kubelet": lambda _: self._stop_kubelet(),
            "new_kubelet": lambda _: self._start_kubelet(),
            "end_others": lambda _: containers.end_listed(),
            "watch": lambda _: manifests.watch(),
            "untouched": self._refuse_a_host_in_use,
            "missing": lambda part: self._want(part["program"]),
            "want": lambda part: self._want(part["package"], Version.parse(f"v{part['version']}")),
            "finish": lambda _: self._install(),
            "enable": lambda _: self._start_containerd(),
            "set_up": lambda _: self._set_up(),
            "start": lambda part: self._start(_UNIT.findall(part["units"])),
            "each": lambda part: containers.each(part["chosen"], part["command"]),
            "until_refused": lambda _: containers.until_refused(),
            "once_quiet": self._end_once_quiet,
            "replace": self._replace,
            "refresh": self._refresh,
            "is": self._check_file,
            "note": lambda _: manifests.note(),
            "keep": lambda part: manifests.keep(Component(part["kept"])),
            "take": lambda part: manifests.take(Component(part["taken"])),
            "put_back": lambda part: manifests.put_back(Component(part["old"])),
            "restart_kubelet": lambda _: self._restart_kubelet(),
        }

    async def run(self, script: str) -> bytes:
        """Do what its lines say, one after the other. Raises Refused where one fails."""
        await self._run_parts(script)
        return b""

    async def _run_parts(self, script: str) -> None:
        for part in known(script):
            if part.lastgroup == "kubeadm":
                await self._run_kubeadm(part["arguments"], part["unless"])
                if part["arguments"].startswith("reset "):
                    break  # what follows takes away what kubeadm leaves, which is one here
            else:
                await self._do(part)

    async def _do(self, part: re.Match[str]) -> None:
        kind = part.lastgroup or ""
        if kind not in _NOTHING and (doing := self._does[kind](part)) is not None:
            await doing

    async def _place(self, part: re.Match[str]) -> None:
        self._placed = self._placed or await self._takes(0.05, 0.3)
        await self._place_file(part["path"].strip("'"), base64.b64decode(part["content"]))

    async def _replace(self, part: re.Match[str]) -> None:
        if self._manifests.differs(Component(part["replaced"])):
            await self._run_parts(part["replacing"])

    async def _check_file(self, part: re.Match[str]) -> None:
        """It is one of those that were read, or are to be written."""
        path, providers = part["checked"].strip("'"), self._machine.disk.providers
        found = hashlib.sha256(material.written(providers)).hexdigest() if path == PATHS[0] and providers is not None else ""
        if found not in part["digests"].strip("'").split("|"):
            raise Refused(f"{path} is not the file that it was: nothing was written over it")

    async def _refresh(self, part: re.Match[str]) -> None:
        if self._manifests.outdated(Component(part["refreshed"])):
            await self._run_parts(part["refreshing"])

    async def _end_once_quiet(self, part: re.Match[str]) -> None:
        await self._containers.end_once_quiet(set(part["ids"].split()), gone_is_enough=part["while"] != ":")

    async def _takes(self, least: float, most: float) -> bool:
        await asyncio.sleep(self._random.uniform(least, most))
        return True

    async def _place_file(self, path: str, content: bytes) -> None:
        disk = self._machine.disk
        if path == f"{PKI}ca.crt":
            disk.ca = material.ca_of(content, self._site.cas)
            await self._takes(0.01, 0.1)
        elif path == PATHS[0]:
            self._kubeadm.tell(Action.KEYS)
            disk.providers = material.read(content)
            await self._takes(0.01, 0.1)
        elif path == INITIALIZING:
            disk.initializing = True
            await self._takes(0.01, 0.1)
        else:
            self._files[path] = content.decode()

    def _remove(self, paths: list[str]) -> None:
        disk = self._machine.disk
        for path in paths:
            if path == INITIALIZING:
                disk.initializing = False
            elif path == SUPER_ADMIN:
                disk.super_admin_conf = False
            elif path == PATHS[0]:
                self._kubeadm.tell(Action.KEYS)
                disk.providers = None
            elif path.startswith(f"{FOLDER}/") and path.endswith(".before"):
                self._manifests.forget(Component(path.removeprefix(f"{FOLDER}/").removesuffix(".before")))

    async def _start(self, units: list[str]) -> None:
        await self._takes(0.2, 2.0)
        self._reach.tells(Action.START, self._machine)
        if "containerd" in units:
            self._machine.containerd_runs = True
        if "kubelet" in units:
            if Component.ETCD in self._site.kubelets.run_otherwise(self._machine):
                self._reach.tells(Action.PUT_DOWN, self._machine)
            self._site.start_kubelet(self._machine)
        self._site.settle()

    def _refuse_a_host_in_use(self, part: re.Match[str]) -> None:
        disk = self._machine.disk
        if disk.kubelet_conf or disk.admin_conf or disk.components is not None or disk.etcd:
            raise Refused("the host belongs to a cluster by now", int(part["belongs"]))

    def _want(self, program: str, version: Version | None = None) -> None:
        self._programs[program] = version

    async def _install(self) -> None:
        """In one transaction. Nothing that runs is touched."""
        disk = self._machine.disk
        await self._takes(1.0, 8.0)
        disk.containerd = disk.containerd or "containerd" in self._programs
        disk.kubeadm = self._programs.get("kubeadm") or disk.kubeadm
        if (kubelet := self._programs.get("kubelet")) is not None:
            if disk.kubelet_conf:
                self._kubeadm.tell(Action.KUBELET, kubelet)
            disk.kubelet = kubelet

    def _start_containerd(self) -> None:
        self._machine.containerd_runs = True
        self._site.settle()

    async def _set_up(self) -> None:
        await self._takes(0.5, 5.0)
        self._machine.disk.prepared = True
        self._start_containerd()

    async def _upgrade(self, version: Version | None) -> None:
        renews = "certificateRenewal: false" not in self._files[UPGRADE_PATH]
        await self._kubeadm.upgrade(self._manifests, version, patched=self._patched, renews=renews)

    @property
    def _patched(self) -> bool:
        """Whether kubeadm is given the patch with which etcd never founds a ring."""
        return "--initial-cluster-state=existing" in self._files.get(f"{PATCHES}/etcd0+json.json", "")

    async def _restart_kubelet(self) -> None:
        """Where its configuration is another than before."""
        if not self._machine.kubelet_runs or self._kubeadm.kubelet_reconfigured:
            await self._start_kubelet()

    async def _start_kubelet(self) -> None:
        """Anew, where it runs."""
        await self._takes(0.2, 1.0)
        self._kubeadm.tell(Action.START)
        if Component.ETCD in self._site.kubelets.run_otherwise(self._machine):
            self._kubeadm.tell(Action.PUT_DOWN)
        self._site.start_kubelet(self._machine)
        self._site.settle()

    def _stop_kubelet(self) -> None:
        self._machine.kubelet_runs, self._machine.kubelet_version = False, None
        self._site.settle()

    async def _run_kubeadm(self, arguments: str, unless: str | None) -> None:
        kubeadm = self._kubeadm
        match arguments.split():
            case ["certs", "renew", "super-admin.conf"] if unless == SUPER_ADMIN:
                pass  # it is of no certificate that anybody looks at
            case ["certs", "renew", certificate]:
                await kubeadm.renew(certificate)
            case ["init", "phase", "preflight", *_, "--config", "/dev/stdin"]:
                await kubeadm.pull_images()
            case ["init", "phase", *phase, "--dry-run", "--config", path] if (component := COMPONENTS.get(" ".join(phase))) is not None:
                await self._takes(0.1, 0.5)
                self._manifests.write_beside(component, configured(self._wanted(path).documents["ClusterConfiguration"]))
            case ["upgrade", "apply", "--yes", "--config", path] if path == UPGRADE_PATH:
                await self._upgrade(Version.parse(_found(self._files[path], r"^ +kubernetesVersion: (\S+)")))
            case ["upgrade", "node", "--config", path] if path == UPGRADE_PATH:
                await self._upgrade(None)
            case ["upgrade", "node", "phase", "kubelet-config", "--config", path] if path == UPGRADE_PATH:
                await kubeadm.configure_kubelet()
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
