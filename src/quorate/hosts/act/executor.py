"""Carries out one step: the table from step to function, and what outlives a step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from quorate.core.hosts.steps import (
    ChangeEncryption,
    DeleteNode,
    EnsureMachineDeployments,
    Initialize,
    Join,
    JoinWorkers,
    OnOneHost,
    Prepare,
    Reconfigure,
    RemoveMember,
    RenewCertificates,
    Reset,
    RewriteSecrets,
    StartServices,
    Step,
    TakeSnapshot,
    Uncordon,
    UpdateConfiguration,
    UpdateNodes,
    UpgradeControlPlane,
    UpgradeKubelet,
)
from quorate.hosts.act.certificates import renew_certificates
from quorate.hosts.act.configuration import update_configuration
from quorate.hosts.act.encryption import as_they_have_it, change_encryption, rewrite_secrets
from quorate.hosts.act.failures import EXPECTED, failure_of
from quorate.hosts.act.initialize import initialize
from quorate.hosts.act.join import join, join_workers
from quorate.hosts.act.kubelet import upgrade_kubelet
from quorate.hosts.act.machine_deployments import ensure_machine_deployments
from quorate.hosts.act.nodes import uncordon, update_nodes
from quorate.hosts.act.prepare import prepare
from quorate.hosts.act.reconfigure import reconfigure
from quorate.hosts.act.requests import Approvals
from quorate.hosts.act.reset import reset
from quorate.hosts.act.ring import delete_node, remove_member
from quorate.hosts.act.services import start_services
from quorate.hosts.act.snapshot import take_snapshot
from quorate.hosts.act.tools import Observation, Tools
from quorate.hosts.act.upgrade import upgrade_control_plane


class Executor:
    """Does what was decided. Every step is idempotent: cut short anywhere, it goes on, or is decided on anew, from what is observed next."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._approvals = Approvals(tools)

    async def carry_out(self, step: Step, observation: Observation) -> None:
        """Do the step that was decided on from this observation. Raises StepFailed, and nothing else that the world may cause."""
        if isinstance(step, Join | JoinWorkers):
            await self._approvals.look(observation.machines)
        self._approvals.expect(_joining(step))
        try:
            await HANDLERS[type(step)](self._tools, step, observation)
        except EXPECTED as error:
            raise failure_of(_where(step), error) from error

    async def settle(self, observation: Observation) -> None:
        """Finish, when there is nothing more to do, what goes on by itself after a step: serving certificates of kubelets are approved. Never fails."""
        await self._approvals.settle(observation.machines)


async def _update_configuration(tools: Tools, _: UpdateConfiguration, observation: Observation) -> None:
    await update_configuration(await as_they_have_it(tools, observation))


async def _take_snapshot(tools: Tools, _: TakeSnapshot, __: Observation) -> None:
    await take_snapshot(tools)


HANDLERS: Mapping[type[Step], Callable[[Tools, Any, Observation], Awaitable[None]]] = {
    Prepare: prepare,
    Initialize: initialize,
    Join: join,
    JoinWorkers: join_workers,
    Reset: reset,
    StartServices: start_services,
    TakeSnapshot: _take_snapshot,
    RemoveMember: remove_member,
    DeleteNode: delete_node,
    UpdateConfiguration: _update_configuration,
    UpgradeControlPlane: upgrade_control_plane,
    UpgradeKubelet: upgrade_kubelet,
    Reconfigure: reconfigure,
    ChangeEncryption: change_encryption,
    RewriteSecrets: rewrite_secrets,
    RenewCertificates: renew_certificates,
    Uncordon: lambda tools, step, _: uncordon(tools, step),
    UpdateNodes: update_nodes,
    EnsureMachineDeployments: lambda tools, _, __: ensure_machine_deployments(tools),
}
"""How each step is carried out; every one there is has its entry (`tests/hosts/act/test_handlers.py`)."""


def _joining(step: Step) -> tuple[str, ...]:
    match step:
        case Initialize(host) | Join(host):
            return (host,)
        case JoinWorkers(hosts):
            return hosts
    return ()


def _where(step: Step) -> str:
    """The host that the step is about, or the step itself where it is about none or several."""
    return step.host if isinstance(step, OnOneHost) else str(step)
