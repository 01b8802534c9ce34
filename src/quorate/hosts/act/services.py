"""Starts units of a host that should run and do not, and sees that they stay up."""

from __future__ import annotations

import re

from quorate.core.hosts.steps import StartServices
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.tools import Tools
from quorate.hosts.render.shell import quoted

START_DEADLINE = 120.0
RUNNING_DEADLINE = 60.0
_ANSWER_DEADLINE = 10.0
_NAME = re.compile(r"[A-Za-z0-9@:_.-]+")


async def start_services(tools: Tools, step: StartServices) -> None:
    """Start the units, enabled for the next boot too, and wait until each runs. Idempotent. Raises StepFailed with the unit's last words.

    Whether a start failed shows in what follows: systemd tries again by itself, and containerd may have to come before the kubelet.
    """
    for unit in step.units:
        if not _NAME.fullmatch(unit):
            raise StepFailed(step.host, f"{unit!r} is not the name of a unit")
    names = " ".join(quoted(unit) for unit in step.units)
    tools.report(step.host, f"starting {', '.join(step.units)}")
    start = f"systemctl reset-failed {names} 2>/dev/null || :\nsystemctl enable --quiet {names} || :\nsystemctl start {names} || :\n"
    await tools.run(step.host, start, doing=f"starting {', '.join(step.units)}", deadline=START_DEADLINE)

    async def not_running() -> str:
        outcome = await tools.access.ssh(step.host).look(_STATES.format(units=names), deadline=_ANSWER_DEADLINE)
        return "; ".join(outcome.lines)

    remedy = f"Look at journalctl -u {step.units[0]} on the host"
    await tools.waits.until(step.host, f"{', '.join(step.units)} to run", not_running, deadline=RUNNING_DEADLINE, remedy=remedy)


# `activating (auto-restart)` is a service that keeps failing: it is not running.
_STATES = """\
for unit in {units}; do
    state=$(systemctl show --property=ActiveState,SubState --value "$unit" | tr '\\n' ' ')
    case "$state" in 'active running '*) ;; *) printf '%s is %s\\n' "$unit" "${{state% }}" ;; esac
done
"""
