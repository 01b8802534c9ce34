"""The Lease of a cluster's hosts: what keeps operators apart who reach different hosts, and the fence of what is written through the API.

Nobody compares clocks: a Lease counts until it was seen unchanged for as long as it lasts. Every write of it is bound to the resourceVersion that was read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from quorate.hosts.run.lock_file import LASTS
from quorate.hosts.run.operator import Holder, decode
from quorate.kubernetes.errors import AlreadyExists, Conflict, NotFound
from quorate.kubernetes.leader import LeaseClient
from quorate.kubernetes.objects import Lease
from quorate.kubernetes.resource import LEASES

NAMESPACE = "kube-system"
LEASE = "quorate-hosts"
NAME = f"Lease {NAMESPACE}/{LEASE}"
HOLDER = "quorate.dev/holder"
"""The annotation of the Lease that says who holds it, in more words than holderIdentity."""


@dataclass(frozen=True, slots=True)
class LeaseLock:
    """The Lease as one run has it. `now` is only ever written into it, for people to read. Every method raises what the client raises."""

    holder: Holder
    now: Callable[[], datetime]
    has_ended: Callable[[Holder], bool]

    async def take(self, client: LeaseClient, *, held: bool = False, instead_of: Lease | None = None) -> Lease | None:
        """Create or renew it, or take it where it is nobody's or has not changed since `instead_of`. The Lease as it is where it is somebody else's.

        `held`: it is this run's already, so that one which is nobody's any more has been somebody else's meanwhile, and is not taken again.
        """
        try:
            found = await client.get(LEASES, LEASE, NAMESPACE)
        except NotFound:
            body = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, **self._claim({"name": LEASE, "namespace": NAMESPACE})}
            writing = client.create(LEASES, body, NAMESPACE)
        else:
            free = not self._is_theirs(found) or (instead_of is not None and _version(found) == _version(instead_of))
            if found.spec.holder_identity != self.holder.id if held else not free:
                return found
            writing = client.merge_patch(LEASES, LEASE, self._claim({"resourceVersion": _version(found)}), NAMESPACE)
        try:
            await writing
        except (AlreadyExists, Conflict):  # somebody was faster: what it is now is looked at anew
            return await self.take(client, held=held, instead_of=instead_of)
        return None

    async def look(self, client: LeaseClient) -> Lease | None:
        """The Lease as it is where it is not this run's; None while it is. Writes nothing."""
        found = await client.get(LEASES, LEASE, NAMESPACE)
        return None if found.spec.holder_identity == self.holder.id else found

    async def give_back(self, client: LeaseClient) -> None:
        """Let the next one have it at once. Idempotent."""
        found = await client.get(LEASES, LEASE, NAMESPACE)
        if found.spec.holder_identity == self.holder.id:
            patch = {"metadata": {"resourceVersion": _version(found)}, "spec": {"holderIdentity": ""}}
            await client.merge_patch(LEASES, LEASE, patch, NAMESPACE)

    def _is_theirs(self, lease: Lease) -> bool:
        if (lease.spec.holder_identity or "") in ("", self.holder.id):
            return False
        holder = holder_of(lease)
        return holder is None or not self.has_ended(holder)

    def _claim(self, metadata: dict[str, str]) -> dict[str, Any]:
        stamp = self.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")  # metav1.MicroTime, which is UTC with six digits
        return {
            "metadata": {**metadata, "annotations": {HOLDER: self.holder.encode().decode()}},
            "spec": {"holderIdentity": self.holder.id, "leaseDurationSeconds": LASTS, "renewTime": stamp},
        }


def holder_of(lease: Lease) -> Holder | None:
    """Who holds it, as that run wrote it down."""
    return decode((lease.metadata.annotations or {}).get(HOLDER, ""))


def _version(lease: Lease) -> str:
    return lease.metadata.resource_version
