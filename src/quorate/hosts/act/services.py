"""Starts units of a host that should run and do not, and sees that they stay up.

A kubelet of another minor version than the one before runs the static Pods anew, etcd too, some time after it has started. So that is done at once, as an
upgrade of the kubelet does it (`kubelet`), after the same quorum check, and waited for: until then the host looks well, and the next would be restarted
beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from quorate.core.hosts.rules.services import restarts_member
from quorate.core.hosts.steps import StartServices
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.kubelet import restart_with_static_pods, run_anew
from quorate.hosts.act.restarts import make_ready
from quorate.hosts.act.settled import member_is_back
from quorate.hosts.act.tools import Observation, Tools
from quorate.hosts.render.shell import quoted

START_DEADLINE = 120.0
RUNNING_DEADLINE = 60.0
_ANSWER_DEADLINE = 10.0
_NAME = re.compile(r"[A-Za-z0-9@:_.-]+")
_KUBELET = "kubelet.service"


async def start_services(tools: Tools, step: StartServices, observation: Observation) -> None:
    """Start the units, enabled for the next boot too, and wait until each runs, and until etcd takes part again where it is restarted. Idempotent.

    Raises StepFailed with the unit's last words, or with the gate's.
    """
    for unit in step.units:
        if not _NAME.fullmatch(unit):
            raise StepFailed(step.host, f"{unit!r} is not the name of a unit")
    if restarts_member(observation.cluster.host(step.host)):
        await _start_with_static_pods(tools, step, observation)
    else:
        await _start(tools, step.host, step.units)
        await _run(tools, step)


async def _start_with_static_pods(tools: Tools, step: StartServices, observation: Observation) -> None:
    """Each component that runs is waited for; one that did not before may have other reasons, which the next look tells."""
    host = step.host
    await make_ready(tools, host, observation)
    if others := [unit for unit in step.units if unit != _KUBELET]:
        await _start(tools, host, others)
        await make_ready(tools, host, observation)  # a minute or two later
    tools.report(host, "starting the kubelet, which restarts etcd")
    before = await restart_with_static_pods(tools, host, _enabling([_KUBELET]))
    await _run(tools, step)
    await run_anew(tools, host, {component: ids for component, ids in before.items() if ids})
    await member_is_back(tools, host)


async def _start(tools: Tools, host: str, units: Iterable[str]) -> None:
    """A start that fails is judged by what comes of it: systemd tries again by itself, and containerd may have to come before the kubelet."""
    doing = f"starting {', '.join(units)}"
    tools.report(host, doing)
    await tools.run(host, f"{_enabling(units)}systemctl start {_names(units)} || :\n", doing=doing, deadline=START_DEADLINE)


async def _run(tools: Tools, step: StartServices) -> None:
    async def not_running() -> str:
        outcome = await tools.access.ssh(step.host).look(_STATES.format(units=_names(step.units)), deadline=_ANSWER_DEADLINE)
        return "; ".join(outcome.lines)

    remedy = f"Look at journalctl -u {step.units[0]} on the host"
    await tools.waits.until(step.host, f"{', '.join(step.units)} to run", not_running, deadline=RUNNING_DEADLINE, remedy=remedy)


def _enabling(units: Iterable[str]) -> str:
    return f"systemctl reset-failed {_names(units)} 2>/dev/null || :\nsystemctl enable --quiet {_names(units)} || :\n"


def _names(units: Iterable[str]) -> str:
    return " ".join(quoted(unit) for unit in units)


# `activating (auto-restart)` is a service that keeps failing: it is not running.
_STATES = """\
for unit in {units}; do
    state=$(systemctl show --property=ActiveState,SubState --value "$unit" | tr '\\n' ' ')
    case "$state" in 'active running '*) ;; *) printf '%s is %s\\n' "$unit" "${{state% }}" ;; esac
done
"""
