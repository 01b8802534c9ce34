"""Carries out one step: which function does which stands here, and what outlasts a step."""

from __future__ import annotations

from typing import assert_never

from quorate.core.in_place.steps import (
    ChangeEncryption,
    DeleteNode,
    EnsureMachineDeployments,
    Initialize,
    Join,
    JoinWorkers,
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

_Change = (
    UpdateConfiguration
    | UpgradeControlPlane
    | UpgradeKubelet
    | Reconfigure
    | ChangeEncryption
    | RewriteSecrets
    | RenewCertificates
    | Uncordon
    | UpdateNodes
    | EnsureMachineDeployments
)


class Hands:
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
            await self._do(step, observation)
        except EXPECTED as error:
            raise failure_of(_where(step), error) from error

    async def settle(self, observation: Observation) -> None:
        """Finish, when there is nothing more to do, what goes on by itself after a step: serving certificates of kubelets are approved. Never fails."""
        await self._approvals.settle(observation.machines)

    async def _do(self, step: Step, observation: Observation) -> None:
        tools = self._tools
        match step:
            case Prepare():
                await prepare(tools, step, observation)
            case Initialize():
                await initialize(tools, step, observation)
            case Join():
                await join(tools, step, observation)
            case JoinWorkers():
                await join_workers(tools, step, observation)
            case Reset():
                await reset(tools, step, observation)
            case StartServices():
                await start_services(tools, step)
            case TakeSnapshot():
                await take_snapshot(tools)
            case RemoveMember():
                await remove_member(tools, step, observation)
            case DeleteNode():
                await delete_node(tools, step, observation)
            case _:
                await self._change(step, observation)

    async def _change(self, step: _Change, observation: Observation) -> None:
        """Steps on what is in a cluster and stays in it."""
        tools = self._tools
        match step:
            case UpdateConfiguration():
                await update_configuration(await as_they_have_it(tools, observation))
            case UpgradeControlPlane():
                await upgrade_control_plane(tools, step, observation)
            case UpgradeKubelet():
                await upgrade_kubelet(tools, step, observation)
            case Reconfigure():
                await reconfigure(tools, step, observation)
            case ChangeEncryption():
                await change_encryption(tools, step, observation)
            case RewriteSecrets():
                await rewrite_secrets(tools, step)
            case RenewCertificates():
                await renew_certificates(tools, step, observation)
            case Uncordon():
                await uncordon(tools, step)
            case UpdateNodes():
                await update_nodes(tools, step, observation)
            case EnsureMachineDeployments():
                await ensure_machine_deployments(tools)
            case _:
                assert_never(step)


def _joining(step: Step) -> tuple[str, ...]:
    match step:
        case Initialize(host) | Join(host):
            return (host,)
        case JoinWorkers(hosts):
            return hosts
    return ()


def _where(step: Step) -> str:
    """The host that the step is about, or the step itself where it is about none or several."""
    return getattr(step, "host", "") or str(step)
