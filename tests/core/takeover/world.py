"""A management cluster in which upstream's provider works and quorate is to come, in plain words."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from quorate.core.takeover.decide import Decision, decide
from quorate.core.takeover.state import ControlPlane, Definition, Item, Journal, Key, Lease, Part, Prospect, Provider, Side, View

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SYSTEM = "capi-kubeadm-control-plane-system"
LEASE = f"{SYSTEM}/kubeadm-control-plane-manager-leader-election-capi"
THEIRS = Key("Deployment", SYSTEM, "capi-kubeadm-control-plane-controller-manager")
OURS = Key("Deployment", SYSTEM, "quorate-controller-manager")
SERVICE = Key("Service", SYSTEM, "webhook-service")
ROLE = Key("ClusterRole", "", "manager-role")
THEIR_ENTRY, OUR_ENTRY = Key("Provider", SYSTEM, "control-plane-kubeadm"), Key("Provider", SYSTEM, "control-plane-quorate")

UPSTREAM = Provider(
    side=Side.UPSTREAM,
    label="control-plane-kubeadm",
    version="v1.14.0",
    deployment=THEIRS,
    gates=frozenset({"MachinePool"}),
    lease=LEASE,
    exists=True,
    desired=1,
    pods=("upstream-1",),
    running=1,
    available=1,
)
QUORATE = Provider(
    side=Side.QUORATE, label="control-plane-quorate", version="v0.1.0", deployment=OURS, gates=frozenset({"MachinePool"}), lease=LEASE
)
RUNNING = replace(QUORATE, exists=True, desired=2, pods=("quorate-1", "quorate-2"), running=2, available=2)
BOTH_SERVED = frozenset({"v1beta1", "v1beta2"})


def item(key: Key, part: Part, *, coming: bool = True, leaving: bool = True, **forms: Any) -> Item:
    """An object as the leaving provider has it, or that is not there yet, unless the forms say otherwise."""
    return Item(key=key, part=part, coming=coming, leaving=leaving, **{"exists": leaving, "as_leaving": leaving, **forms})


ITEMS = (
    item(Key("Namespace", "", SYSTEM), Part.GROUND, stays=True, as_coming=True),
    item(Key("NetworkPolicy", SYSTEM, "quorate-controller-manager"), Part.GROUND, leaving=False),
    item(Key("Issuer", SYSTEM, "selfsigned-issuer"), Part.GROUND, coming=False),
    item(ROLE, Part.RIGHTS),
    item(THEIRS, Part.PROVIDER, coming=False),
    item(OURS, Part.PROVIDER, leaving=False),
    item(SERVICE, Part.WEBHOOKS),
    item(Key("MutatingWebhookConfiguration", "", "mutating"), Part.WEBHOOKS),
    item(THEIR_ENTRY, Part.INVENTORY, coming=False),
    item(OUR_ENTRY, Part.INVENTORY, leaving=False),
)
AT_REST = ControlPlane(name="default/a", prospect=Prospect.AT_REST, evidence="nothing to do")


def world(**changes: Any) -> View:
    """Before anything was changed, with one control plane at rest."""
    whole: dict[str, Any] = {
        "goal": Side.QUORATE,
        "coming": QUORATE,
        "leaving": UPSTREAM,
        "items": ITEMS,
        "definitions": (Definition(name="kcp", coming=BOTH_SERVED, leaving=BOTH_SERVED, stored=frozenset({"v1beta2"})),),
        "lease": Lease("upstream-1_x"),
        "control_planes": (AT_REST,),
        "core_version": "v1.14.0",
        "since": NOW,
    }
    return View(**{**whole, **changes})


def begun(**changes: Any) -> View:
    """After both installations were saved; the control planes are not looked at."""
    return world(**{"journal": Journal(Side.QUORATE, NOW), "control_planes": None, **changes})


def as_coming(*parts: Part, but: tuple[Key, ...] = ()) -> tuple[Item, ...]:
    """The items with those of these parts in the coming form, rights in that of both."""
    return tuple(
        replace(each, exists=True, as_coming=each.part is not Part.RIGHTS, as_both=each.part is Part.RIGHTS, as_leaving=False)
        if each.part in parts and each.coming and each.key not in but
        else each
        for each in ITEMS
    )


def decided(view: View, after: timedelta = timedelta(0)) -> Decision:
    """The decision, some time after the change began."""
    return decide(view, NOW + after)


def refused(view: View) -> str:
    """What stands in the way, in one text; nothing may happen."""
    decision = decided(view)
    assert decision.step is None, decision.step
    return "; ".join(f"{check.name}: {check.evidence} -> {check.remedy}" for check in decision.refusals)
