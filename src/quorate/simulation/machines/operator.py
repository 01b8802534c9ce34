"""Somebody who does what a control plane that is stalled asks for: he reads its condition, goes to the hosts, and looks at what only they can tell him."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from quorate.core.machines.rules.orphans import CONSENT
from quorate.simulation.engine.objects import CONTROL_PLANES
from quorate.simulation.engine.ring import NoQuorum
from quorate.simulation.engine.world import NAMESPACE
from quorate.simulation.machines.cluster_objects import NAME, USER
from quorate.simulation.machines.environment import Environment
from quorate.simulation.machines.hosts import Host
from quorate.simulation.machines.liveness import explained

_RESTART_KUBELET = re.compile(r"Restart the kubelet on the host of (\S+) ")
_SEE_WHY = re.compile(r"See in kubeadm's output on the host of (\S+) ")
_HOST_IS_GONE = re.compile(r"If that host is gone for good, delete the Machine (\S+):")
_CONSENT_TO = re.compile(rf"annotate the KubeadmControlPlane with {re.escape(CONSENT)}=([0-9a-f]+)")
_REMOVE_BY_HAND = "If they are gone for good, remove them with `etcdctl member remove`"


def obey(environment: Environment) -> list[str]:
    """Do what the condition Stalled says, as far as the hosts bear it out. Returns what was done; nothing where nobody is asked for anything."""
    control_plane = environment.control_plane
    if control_plane is None or not explained(environment):
        return []
    return [done for act in _ACTS for done in act(environment, control_plane.condition("Stalled")["message"])]


def _restart_kubelets(environment: Environment, message: str) -> Iterator[str]:
    for name in sorted({*_RESTART_KUBELET.findall(message), *_SEE_WHY.findall(message)}):
        host = environment.cluster.hosts.get(name)
        if host is not None and host.alive and host.registered and name not in environment.nodes:
            environment.kubelets.poke(host)
            yield f"restarts the kubelet of {name}"


def _remove_members(environment: Environment, message: str) -> Iterator[str]:
    """One at a time, as long as a majority answers: whoever removes by hand looks at each host first."""
    if _REMOVE_BY_HAND not in message:
        return
    ring = environment.cluster.ring
    kept = {host.member for host in environment.cluster.hosts.values()}
    for member in sorted(ring.members.keys() - kept):
        if ring.history[-1].survives_without(member):
            try:
                ring.remove(member)
            except NoQuorum:
                return
            yield f"removes member {member:x}, whose data no host has"
            return


def _consent(environment: Environment, message: str) -> Iterator[str]:
    """To the removal of a member that no host which runs has the data of."""
    kept = {host.member for host in environment.cluster.hosts.values() if host.alive}
    gone = [each for each in dict.fromkeys(_CONSENT_TO.findall(message)) if int(each, 16) not in kept]
    if gone:
        annotations = {CONSENT: ",".join(gone)}
        environment.world.management.merge_patch(CONTROL_PLANES, NAMESPACE, NAME, {"metadata": {"annotations": annotations}}, who=USER)
        yield f"consents to the removal of {', '.join(gone)}"


def _give_up(environment: Environment, message: str) -> Iterator[str]:
    """Machines on whose hosts kubeadm has given up, and those whose hosts are gone."""
    leaving = {machine.name for machine in environment.machines if machine.deleting}
    given_up = set(_SEE_WHY.findall(message))
    for name in sorted(given_up | set(_HOST_IS_GONE.findall(message))):
        host = environment.cluster.hosts.get(name)
        if name not in leaving and (host is None or (name in given_up and _has_given_up(environment, host))):
            environment.delete_machine(name)
            yield f"deletes {name}, " + ("whose host is gone" if host is None else "on whose host kubeadm has given up")


def _has_given_up(environment: Environment, host: Host) -> bool:
    return not host.joined and not host.registered and not environment.infrastructure.is_busy(host.name)


_ACTS: tuple[Callable[[Environment, str], Iterator[str]], ...] = (_restart_kubelets, _remove_members, _consent, _give_up)
