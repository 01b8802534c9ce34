"""`quorate plan NAME`: what would be done to a control plane, machine by machine and step by step, as it is or with an edit, before anything happens.

`quorate plan -m MANIFEST` says the same of existing hosts (`quorate.cli.hosts.plan`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from quorate.cli.documents import as_json
from quorate.cli.failures import ExitCode, Failure
from quorate.cli.hosts.access import with_manifest
from quorate.cli.hosts.wishes import with_wishes
from quorate.cli.machines.access import Access, with_access
from quorate.core.text import printable

if TYPE_CHECKING:
    from quorate.cli.lines import CheckLine
    from quorate.clusterapi.inspection import Finding
    from quorate.clusterapi.observe.observer import Edit
    from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
    from quorate.core.machines.forecast import Forecast
    from quorate.core.plan import PlannedStep


_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class Replacement:
    """A machine that differs from what is desired, and each difference."""

    machine: str
    differences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is said of a plan; the keys of `-o json`."""

    namespace: str
    name: str
    version: str
    replicas: int
    ring: str
    replacements: tuple[Replacement, ...]
    steps: tuple[PlannedStep, ...]
    converges: bool
    stands_in_the_way: tuple[CheckLine, ...]  # what keeps the plan from reaching its goal

    @property
    def changes(self) -> bool:
        """Whether there is anything to do, or to want and not to be able to."""
        return bool(self.steps) or not self.converges


class _Command(click.Command):
    """A command whose exit code 2 is free for what it found."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.exit_code = ExitCode.WRONG_COMMAND_LINE  # type: ignore[misc]  # click declares it for the class
            raise


@click.command(name="plan", cls=_Command, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name", required=False, default="")
@click.option("--namespace", "-n", help="Its namespace; without it the context's.")
@click.option(
    "--set", "settings", multiple=True, metavar="FIELD=VALUE", help="A field below spec to change, such as version=v1.35.4. Repeatable."
)
@click.option(
    "--filename", "-f", "file", type=click.File(encoding="utf-8"), help="An edited KubeadmControlPlane as YAML or JSON; - is stdin."
)
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", show_default=True, help="The format.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="With -m: keep the plan, for `quorate apply FILE`.")
@with_manifest(default=None)
@with_wishes
@with_access
@click.pass_context
def command(
    ctx: click.Context,
    /,
    name: str,
    namespace: str | None,
    settings: tuple[str, ...],
    file: TextIO | None,
    output: str,
    out: Path | None,
    kubeconfig: str | None,
    context: str | None,
    etcd_dialer: str,
    **hosts: Any,
) -> None:
    """Say what would be done, in which order, and the etcd ring with each step: to the Machines of the control plane NAME, or with -m to existing hosts.

    Changes nothing. Ends with 0 where there is nothing to do, with 2 where there is, and with 64 where the command line is wrong or the edit would be refused.
    """
    from quorate.cli import event_loop, logs
    from quorate.cli.hosts import plan as hosts_plan
    from quorate.cli.hosts import wishes

    logs.quiet(debug=ctx.find_root().params["debug"])
    if hosts["manifest"] is not None:
        if name or file or settings:
            raise _wrong("-m plans for the hosts of a manifest: give no NAME, --set or --filename with it")
        hosts_plan.run(ctx, hosts, wishes.wishes(hosts), output=output, out=out)
    if not name or out:
        raise _wrong("name a control plane, or with -m the manifest of existing hosts; --out goes with -m")
    chosen = Access(kubeconfig, context, etcd_dialer)
    where = namespace or chosen.config().namespace
    edit = _edit(name, file, settings)
    plan = event_loop.run(_make(chosen, where, name, edit))
    click.echo(as_json(plan) if output == "json" else as_text(plan), nl=False)
    ctx.exit(ExitCode.CHANGES if plan.changes else ExitCode.OK)


async def _make(access: Access, namespace: str, name: str, edit: Edit | None) -> Plan:
    from quorate.cli.machines.access import inspector, look
    from quorate.kubernetes.controller import Request

    request = Request(namespace, name)
    async with inspector(access, namespace) as eyes:
        finding = (await look(eyes, [request])).get(request)
        if finding is not None and edit is not None:
            finding = await eyes.look(request, edit)
    if finding is None:
        raise Failure(f"there is no KubeadmControlPlane {namespace}/{name}; `quorate get -A` shows all", ExitCode.NOT_FOUND)
    return plan_of(finding)


def plan_of(finding: Finding) -> Plan:
    """The plan for what was found."""
    from datetime import UTC, datetime

    from quorate.core.machines.forecast import forecast

    observation = finding.observation
    metadata = observation.kcp.metadata
    if observation.view is None:
        raise Failure(f"{metadata.namespace}/{metadata.name} has no Cluster yet, so nothing can be planned", ExitCode.STALLED)
    foreseen = forecast(observation.view, datetime.now(UTC))
    return _plan(finding, foreseen)


def _plan(finding: Finding, foreseen: Forecast) -> Plan:
    from quorate.cli import lines

    observation = finding.observation
    return Plan(
        namespace=observation.kcp.metadata.namespace,
        name=observation.kcp.metadata.name,
        version=printable(observation.kcp.spec.version),
        replicas=1 if observation.kcp.spec.replicas is None else observation.kcp.spec.replicas,
        ring=lines.verdict(observation.ring),
        replacements=tuple(
            Replacement(machine.name, tuple(line for way in machine.outdated for line in (way.message, *way.details)))
            for machine in observation.machines
            if machine.outdated
        ),
        steps=_planned(foreseen),
        converges=foreseen.converged,
        stands_in_the_way=() if foreseen.converged else tuple(map(lines.check_line, foreseen.refusals)),
    )


def _planned(foreseen: Forecast) -> tuple[PlannedStep, ...]:
    from quorate.core.plan import told
    from quorate.core.ring import Ring

    end = foreseen.end.ring.now if isinstance(foreseen.end.ring, Ring) and foreseen.end.ring.members else None
    rings = [*(step.before for step in foreseen.steps), end][1:]  # of the first step: what the second one finds
    return tuple(told(number, step, ring, str) for number, (step, ring) in enumerate(zip(foreseen.steps, rings, strict=True), 1))


def _edit(name: str, file: TextIO | None, settings: tuple[str, ...]) -> Edit | None:
    """The edit that the command line asks for; None where it asks for none. Of a file its specification and its annotations count."""
    if file is None and not settings:
        return None
    document = _document(file, name) if file else None
    assignments = [_assignment(setting) for setting in settings]

    def edit(kcp: KubeadmControlPlane) -> KubeadmControlPlane:
        import msgspec

        stored: dict[str, Any] = msgspec.to_builtins(kcp)
        edited = _as_in(document, stored) if document else msgspec.to_builtins(kcp)
        for path, value in assignments:
            _assign(edited["spec"], path, value)
        return _accepted(stored, edited, type(kcp))

    return edit


def _as_in(document: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """The stored object as it would be with this document in its place."""
    metadata = {**stored["metadata"], "annotations": _annotations(document["metadata"], stored["metadata"])}
    return {**stored, "metadata": metadata, "spec": document["spec"]}


def _annotations(said: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """The annotations that an edited file leaves an object with.

    A copy of the object, which has its uid, says all of them (`kubectl replace`): but for the provider's own records, where it is the copy of an earlier
    version. A manifest adds its own, and takes away those that an earlier one had added (`kubectl apply`).
    """
    from quorate.clusterapi.desired import intent, remediation_record
    from quorate.clusterapi.types.names import Annotation

    wanted, found = said.get("annotations") or {}, stored.get("annotations") or {}
    if said.get("resourceVersion") and said["resourceVersion"] == stored.get("resourceVersion"):
        return dict(wanted)
    if said.get("uid"):
        records = {intent.ANNOTATION, remediation_record.INTENT, Annotation.REMEDIATION_IN_PROGRESS}
        kept = {key: value for key, value in found.items() if key in records}
        return {key: value for key, value in wanted.items() if key not in records} | kept
    withdrawn = _applied(found) - wanted.keys()
    return {key: value for key, value in found.items() if key not in withdrawn} | wanted


def _applied(annotations: Mapping[str, str]) -> set[str]:
    """The annotations of the manifest that `kubectl apply` applied last, as it records it; none where it has not."""
    import json

    try:
        return set(json.loads(annotations[_LAST_APPLIED])["metadata"]["annotations"])
    except (KeyError, TypeError, ValueError):
        return set()


def _accepted(stored: Mapping[str, Any], edited: dict[str, Any], kind: type[KubeadmControlPlane]) -> KubeadmControlPlane:
    """The edited object, if admission would let it in. Raises Failure with everything that is wrong."""
    import msgspec

    from quorate.clusterapi.api.defaults import default_kubeadm_control_plane
    from quorate.clusterapi.api.validation import validate_update
    from quorate.clusterapi.types.names import FeatureGate

    edited = default_kubeadm_control_plane(edited)
    edited["metadata"]["resourceVersion"] = "edited"
    wrong = validate_update(default_kubeadm_control_plane(dict(stored)), edited, frozenset(FeatureGate))
    if wrong:
        raise _refused("; ".join(f"{error.path}: {error.message}" for error in wrong))
    try:
        return msgspec.convert(edited, kind)
    except msgspec.ValidationError as error:
        raise _refused(str(error)) from None


def _refused(reasons: str) -> Failure:
    return Failure(f"the edited control plane would be refused: {reasons}", ExitCode.WRONG_COMMAND_LINE)


def _document(file: TextIO, name: str) -> dict[str, Any]:
    import yaml

    from quorate.clusterapi.types.names import KUBEADM_CONTROL_PLANE_KIND
    from quorate.clusterapi.types.resources import KUBEADM_CONTROL_PLANES

    try:
        document = yaml.safe_load(file)
    except yaml.YAMLError as error:
        raise _wrong(f"{file.name} is not YAML: {error}") from None
    if not isinstance(document, dict) or document.get("kind") != KUBEADM_CONTROL_PLANE_KIND or not isinstance(document.get("spec"), dict):
        raise _wrong(f"{file.name} does not hold one {KUBEADM_CONTROL_PLANE_KIND} with a spec")
    if document.get("apiVersion") != KUBEADM_CONTROL_PLANES.api_version:
        raise _wrong(f"{file.name} is of {document.get('apiVersion')}: write it as {KUBEADM_CONTROL_PLANES.api_version}")
    named = document.get("metadata", {}).get("name") if isinstance(document.get("metadata"), dict) else None
    if named != name:
        raise _wrong(f"{file.name} holds {named or 'one without a name'}, not {name}")
    if not isinstance(document["metadata"].get("annotations") or {}, dict):
        raise _wrong(f"{file.name}: metadata.annotations must hold keys and values")
    return document


def _assignment(setting: str) -> tuple[list[str], Any]:
    import yaml

    path, equals, value = setting.partition("=")
    if not equals or not all(path.split(".")):
        raise _wrong(f"--set {setting}: write FIELD=VALUE, for example version=v1.35.4 or rollout.strategy.rollingUpdate.maxSurge=0")
    try:
        return path.removeprefix("spec.").split("."), yaml.safe_load(value)
    except yaml.YAMLError:
        raise _wrong(f"--set {setting}: the value is not YAML; put quotes around it") from None


def _assign(spec: dict[str, Any], path: list[str], value: Any) -> None:
    for key in path[:-1]:
        inner = spec.setdefault(key, {})
        if not isinstance(inner, dict):
            raise _wrong(f"--set {'.'.join(path)}: {key} holds no fields; edit a file and use --filename")
        spec = inner
    spec[path[-1]] = value


def _wrong(message: str) -> click.UsageError:
    error = click.UsageError(message)
    error.exit_code = ExitCode.WRONG_COMMAND_LINE  # type: ignore[misc]  # as above
    return error


def as_text(plan: Plan) -> str:
    """For a person. Colours are escape codes, which click takes away where nobody sees them."""
    parts = (_head(plan), _replacements(plan), _steps(plan), _end(plan))
    return "\n".join("\n".join(lines) + "\n" for lines in parts if lines)


def _head(plan: Plan) -> list[str]:
    count = f"{plan.replicas} replica{'' if plan.replicas == 1 else 's'}"
    return [f"{plan.namespace}/{plan.name}, {count} at {plan.version}", f"etcd now: {plan.ring}"]


def _replacements(plan: Plan) -> list[str]:
    lines = ["Machines that differ"] if plan.replacements else []
    for replacement in plan.replacements:
        lines.append(f"  {replacement.machine}")
        lines += [f"    {difference}" for difference in replacement.differences]
    return lines


def _steps(plan: Plan) -> list[str]:
    texts = [f"{step.step}: {step.makes}" if step.makes else step.step for step in plan.steps]
    width = max(map(len, texts), default=0)
    lines = [f"  {step.number:>3}  {text:<{width}}  {_colour(step)}".rstrip() for step, text in zip(plan.steps, texts, strict=True)]
    return ["Steps, and etcd when each is done", *lines] if lines else []


def _colour(step: PlannedStep) -> str:
    short = step.tolerates is not None and step.tolerates < 0
    return click.style(step.ring_after, fg="red") if short else step.ring_after


def _end(plan: Plan) -> list[str]:
    if plan.converges:
        return ["Then everything is as desired." if plan.steps else "Nothing to do: everything is as desired."]
    lines = ["Then it waits:" if plan.steps else "Nothing can be done now:"]
    for line in plan.stands_in_the_way:
        lines.append(f"  {line.name}: {line.evidence}")
        lines += [f"    -> {line.remedy}"] if line.remedy else []
    return lines
