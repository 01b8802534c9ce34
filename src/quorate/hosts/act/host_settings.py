"""The manifest's settings on one host that has joined: kernel, proxies, CAs that it trusts, containerd; and the restarts that they need."""

from __future__ import annotations

from quorate.hosts.act import containers
from quorate.hosts.act.certificates import serves
from quorate.hosts.act.placing import placing
from quorate.hosts.act.systems import known_facts, known_system
from quorate.hosts.act.tools import Observation, Tools
from quorate.hosts.observe.drift import containerd_version
from quorate.hosts.render.host_settings import RESTARTS_DUE, TRUST, bringing, settings_files
from quorate.workload.static_pods import Component

DEADLINE = 180.0
_TRUSTING = (Component.API_SERVER, Component.CONTROLLER_MANAGER)
"""The components that talk to servers outside of the cluster, and read the host's CAs when they start."""


async def bring_settings(tools: Tools, name: str, observation: Observation, *, control_plane: bool) -> frozenset[str]:
    """Give the host its settings, and restart what reads them; tell what was restarted. Of a control plane, the gate has passed. Raises StepFailed.

    What was restarted stays noted on the host until `well_again`: an attempt that is cut short restarts it once more.
    """
    facts = known_facts(name, observation.facts[name])
    system = known_system(observation.machines[name], facts)
    files = settings_files(tools.manifest, system, containerd_version(facts))
    tools.report(name, "comparing the host's settings with the manifest")
    script = bringing(tools.manifest, system, files, placing(files))
    outcome = await tools.run(name, script, doing="applying settings", deadline=DEADLINE)
    for line in outcome.lines:
        if line.startswith(("changed ", "removed ", "not possible")):
            tools.report(name, line)
    due = frozenset(line.removeprefix("due ") for line in outcome.lines if line.startswith("due "))
    if control_plane and TRUST in due:
        for component in _TRUSTING:
            await containers.restart(tools, name, component)
            await serves(tools, name, component)
    return due


async def well_again(tools: Tools, name: str) -> None:
    """Note on the host that nothing is to be restarted any more. Raises StepFailed."""
    await tools.run(name, f"rm -f -- {RESTARTS_DUE}", doing="noting that it was restarted", deadline=DEADLINE)
