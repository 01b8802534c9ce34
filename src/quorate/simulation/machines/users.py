"""What users do to a control plane at any moment. Each is one small function that does it to a town, if it can be done now, and says what was done."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from random import Random

from quorate.clusterapi.types.names import Annotation
from quorate.core.versions import Version
from quorate.simulation.engine.apiserver import timestamp
from quorate.simulation.engine.objects import CONTROL_PLANES, MACHINES, Json
from quorate.simulation.engine.world import NAMESPACE
from quorate.simulation.machines.cluster_objects import NAME, USER
from quorate.simulation.machines.town import Town

Deed = Callable[[Town, Random], str | None]
"""Does something. Returns what, or None where it made no sense now."""

_NEWEST_MINOR = 36


def scale(town: Town, random: Random) -> str | None:
    """Another number of replicas."""
    rolling = ((_spec(town).get("rollout") or {}).get("strategy") or {}).get("rollingUpdate") or {}
    replicas = random.choice((1, 3, 3, 5) if rolling.get("maxSurge", 1) else (3, 5))  # admission refuses one replica that may not surge
    town.edit({"replicas": replicas})
    return f"replicas {replicas}"


def upgrade(town: Town, random: Random) -> str | None:
    """The next patch or minor version, and only where every Machine has the present one: kubeadm goes no further."""
    spec = _spec(town)
    current = Version.parse(spec["version"])
    if any(machine.spec["version"] != spec["version"] for machine in town.machines):
        return None
    major, minor, patch = current.release
    minor_upgrade = random.random() < 0.5 and minor < _NEWEST_MINOR
    version = f"v{major}.{minor + 1}.0" if minor_upgrade else f"v{major}.{minor}.{patch + 1}"
    town.edit({"version": version})
    return f"version {version}"


def change_configuration(town: Town, random: Random) -> str | None:
    """Another file on every machine."""
    content = f"{random.getrandbits(32):08x}"
    town.edit({"kubeadmConfigSpec": {"files": [{"path": "/etc/note", "content": content}]}})
    return f"kubeadmConfigSpec with {content}"


def change_template(town: Town, random: Random) -> str | None:
    """Another infrastructure template."""
    name = f"size-{random.getrandbits(24):06x}"
    town.add_template(name)
    town.edit({"machineTemplate": {"spec": {"infrastructureRef": {"name": name}}}})
    return f"template {name}"


def roll_out_after(town: Town, random: Random) -> str | None:
    """Everything made until now is to be replaced, now or in a minute."""
    after = timestamp(town.world.now() + timedelta(seconds=random.choice((0, 60))))
    town.edit({"rollout": {"after": after}})
    return f"rollout.after {after}"


def replace_before_expiry(town: Town, random: Random) -> str | None:
    """Machines are to be replaced a week before their certificates expire, or not any more."""
    days = random.choice((7, 7, None))
    town.edit({"rollout": {"before": {"certificatesExpiryDays": days}}})
    return f"rollout.before.certificatesExpiryDays {days}"


def change_surge(town: Town, random: Random) -> str | None:
    """The other strategy."""
    if _spec(town)["replicas"] < 3:
        return None
    surge = random.choice((0, 1))
    town.edit({"rollout": {"strategy": {"rollingUpdate": {"maxSurge": surge}}}})
    return f"maxSurge {surge}"


def delete_machines(town: Town, random: Random) -> str | None:
    """One Machine, or two."""
    machines = [machine.name for machine in town.machines if not machine.deleting]
    chosen = random.sample(machines, min(len(machines), random.choice((1, 1, 1, 2))))
    for name in chosen:
        town.delete_machine(name)
    return f"deletes {' and '.join(chosen)}" if chosen else None


def mark_for_deletion(town: Town, random: Random) -> str | None:
    """A Machine is to be chosen when one has to go."""
    machines = [machine.name for machine in town.machines if not machine.deleting]
    if not machines:
        return None
    name = random.choice(machines)
    _annotate(town, name, {Annotation.DELETE_MACHINE: ""})
    return f"marks {name} for deletion"


def pause(town: Town, random: Random) -> str | None:
    """Nothing is to be done for a while."""
    town.edit_cluster({"paused": True})
    town.world.after(random.uniform(30.0, 300.0), unpause, town)
    return "pauses"


def unpause(town: Town) -> None:
    """Go on."""
    if town.cluster_object is not None:
        town.edit_cluster({"paused": None})


def mistake(town: Town, random: Random) -> str | None:
    """A template that does not exist, put right a little later."""
    present = _spec(town)["machineTemplate"]["spec"]["infrastructureRef"]["name"]
    town.edit({"machineTemplate": {"spec": {"infrastructureRef": {"name": "nowhere"}}}})

    def put_right() -> None:
        if town.control_plane is not None and _spec(town)["machineTemplate"]["spec"]["infrastructureRef"]["name"] == "nowhere":
            town.edit({"machineTemplate": {"spec": {"infrastructureRef": {"name": present}}}})

    town.world.after(random.uniform(20.0, 120.0), put_right)
    return "names a template that does not exist"


DEEDS: tuple[Deed, ...] = (
    scale,
    scale,
    upgrade,
    upgrade,
    change_configuration,
    change_template,
    roll_out_after,
    replace_before_expiry,
    change_surge,
    delete_machines,
    mark_for_deletion,
    pause,
    mistake,
)


def _spec(town: Town) -> Json:
    return town.world.management.get(CONTROL_PLANES, NAMESPACE, NAME).spec


def _annotate(town: Town, machine: str, annotations: dict[str, str]) -> None:
    town.world.management.merge_patch(MACHINES, NAMESPACE, machine, {"metadata": {"annotations": annotations}}, who=USER)
