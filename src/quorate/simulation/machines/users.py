"""What users do to a control plane at any moment. Each is one small function that does it to an environment, if it can be done now, and says what was done."""

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
from quorate.simulation.machines.environment import Environment

Action = Callable[[Environment, Random], str | None]
"""Does something. Returns what, or None where it made no sense now."""

_NEWEST_MINOR = 36


def scale(environment: Environment, random: Random) -> str | None:
    """Another number of replicas."""
    rolling = ((_spec(environment).get("rollout") or {}).get("strategy") or {}).get("rollingUpdate") or {}
    replicas = random.choice((1, 3, 3, 5) if rolling.get("maxSurge", 1) else (3, 5))  # admission refuses one replica that may not surge
    environment.edit({"replicas": replicas})
    return f"replicas {replicas}"


def upgrade(environment: Environment, random: Random) -> str | None:
    """The next patch or minor version, and only where every Machine has the present one: kubeadm goes no further."""
    spec = _spec(environment)
    current = Version.parse(spec["version"])
    if any(machine.spec["version"] != spec["version"] for machine in environment.machines):
        return None
    major, minor, patch = current.release
    minor_upgrade = random.random() < 0.5 and minor < _NEWEST_MINOR
    version = f"v{major}.{minor + 1}.0" if minor_upgrade else f"v{major}.{minor}.{patch + 1}"
    environment.edit({"version": version})
    return f"version {version}"


def change_configuration(environment: Environment, random: Random) -> str | None:
    """Another file on every machine."""
    content = f"{random.getrandbits(32):08x}"
    environment.edit({"kubeadmConfigSpec": {"files": [{"path": "/etc/note", "content": content}]}})
    return f"kubeadmConfigSpec with {content}"


def change_template(environment: Environment, random: Random) -> str | None:
    """Another infrastructure template."""
    name = f"size-{random.getrandbits(24):06x}"
    environment.add_template(name)
    environment.edit({"machineTemplate": {"spec": {"infrastructureRef": {"name": name}}}})
    return f"template {name}"


def roll_out_after(environment: Environment, random: Random) -> str | None:
    """Everything made until now is to be replaced, now or in a minute."""
    after = timestamp(environment.world.now() + timedelta(seconds=random.choice((0, 60))))
    environment.edit({"rollout": {"after": after}})
    return f"rollout.after {after}"


def replace_before_expiry(environment: Environment, random: Random) -> str | None:
    """Machines are to be replaced a week before their certificates expire, or not any more."""
    days = random.choice((7, 7, None))
    environment.edit({"rollout": {"before": {"certificatesExpiryDays": days}}})
    return f"rollout.before.certificatesExpiryDays {days}"


def change_surge(environment: Environment, random: Random) -> str | None:
    """The other strategy."""
    if _spec(environment)["replicas"] < 3:
        return None
    surge = random.choice((0, 1))
    environment.edit({"rollout": {"strategy": {"rollingUpdate": {"maxSurge": surge}}}})
    return f"maxSurge {surge}"


def delete_machines(environment: Environment, random: Random) -> str | None:
    """One Machine, or two."""
    machines = [machine.name for machine in environment.machines if not machine.deleting]
    chosen = random.sample(machines, min(len(machines), random.choice((1, 1, 1, 2))))
    for name in chosen:
        environment.delete_machine(name)
    return f"deletes {' and '.join(chosen)}" if chosen else None


def mark_for_deletion(environment: Environment, random: Random) -> str | None:
    """A Machine is to be chosen when one has to go."""
    machines = [machine.name for machine in environment.machines if not machine.deleting]
    if not machines:
        return None
    name = random.choice(machines)
    _annotate(environment, name, {Annotation.DELETE_MACHINE: ""})
    return f"marks {name} for deletion"


def pause(environment: Environment, random: Random) -> str | None:
    """Nothing is to be done for a while."""
    environment.edit_cluster({"paused": True})
    environment.world.after(random.uniform(30.0, 300.0), unpause, environment)
    return "pauses"


def unpause(environment: Environment) -> None:
    """Go on."""
    if environment.cluster_object is not None:
        environment.edit_cluster({"paused": None})


def mistake(environment: Environment, random: Random) -> str | None:
    """A template that does not exist, put right a little later."""
    present = _spec(environment)["machineTemplate"]["spec"]["infrastructureRef"]["name"]
    environment.edit({"machineTemplate": {"spec": {"infrastructureRef": {"name": "nowhere"}}}})

    def put_right() -> None:
        if (
            environment.control_plane is not None
            and _spec(environment)["machineTemplate"]["spec"]["infrastructureRef"]["name"] == "nowhere"
        ):
            environment.edit({"machineTemplate": {"spec": {"infrastructureRef": {"name": present}}}})

    environment.world.after(random.uniform(20.0, 120.0), put_right)
    return "names a template that does not exist"


ACTIONS: tuple[Action, ...] = (
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


def _spec(environment: Environment) -> Json:
    return environment.world.management.get(CONTROL_PLANES, NAMESPACE, NAME).spec


def _annotate(environment: Environment, machine: str, annotations: dict[str, str]) -> None:
    environment.world.management.merge_patch(MACHINES, NAMESPACE, machine, {"metadata": {"annotations": annotations}}, who=USER)
