"""The Lease of a cluster's hosts: what keeps operators apart who reach different hosts, and the fence of what is written through the API.

Nobody compares clocks: a Lease counts until it was seen unchanged for as long as it lasts. Every write of it is bound to the resourceVersion that was read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from quorate.hosts.connect.access import AccessFailed
from quorate.hosts.connect.ssh.errors import SshError
from quorate.hosts.run.lock_file import LASTS, Unasked
from quorate.hosts.run.operator import Holder, decode
from quorate.kubernetes.config import ConfigError
from quorate.kubernetes.errors import AlreadyExists, ApiError, Conflict, ConnectionFailed, NotFound, Timeout
from quorate.kubernetes.leader import LeaseClient
from quorate.kubernetes.objects import Lease
from quorate.kubernetes.resource import LEASES

NAMESPACE = "kube-system"
LEASE = "quorate-hosts"
NAME = f"Lease {NAMESPACE}/{LEASE}"
HOLDER = "quorate.dev/holder"
"""The annotation of the Lease that says who holds it, in more words than holderIdentity."""


_DEADLINE = 15.0  # seconds for an API server that answers to be found, and to answer
_SILENT = (SshError, AccessFailed, ConnectionFailed, ConfigError, TimeoutError, Timeout)


@dataclass(frozen=True, slots=True)
class Ours:
    """It is this run's, from now on for LASTS."""


@dataclass(frozen=True, slots=True)
class Others:
    """It is somebody else's, as this says."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class Refused:
    """An API server was asked, and says no: etcd has no space left, say, or a webhook does not answer. As far as it could be read it is nobody else's."""

    reason: str


Answer: TypeAlias = Ours | Others | Refused | Unasked
Api: TypeAlias = Callable[[], Awaitable[LeaseClient]]


class LeaseLock:
    """The Lease as one run has it. `now` is only ever written into it, for people to read; `elapsed` goes on while the process is stopped."""

    def __init__(
        self, holder: Holder, *, now: Callable[[], datetime], elapsed: Callable[[], float], has_ended: Callable[[Holder], bool]
    ) -> None:
        self.renewed: float | None = None
        """When the request was sent that took or renewed it last."""
        self.asked: float | None = None
        """When the API was asked for it last, whatever came of that."""
        self.trouble = "was not asked for"
        """Why it could not be had when it was last asked for."""
        self._holder, self._now, self._elapsed, self._has_ended = holder, now, elapsed, has_ended
        self._watched = ""  # the version that was seen unchanged for as long as it lasts

    async def keep(self, api: Api, *, watched: Lease | None = None) -> Answer:
        """Take it or renew it through an API server that answers; see `take`. Gives up after 15 s."""
        asked = self._elapsed()
        try:
            async with asyncio.timeout(_DEADLINE):
                other = await self.take(await api(), watched=watched)
        except _SILENT as error:
            self.trouble = f"cannot be asked for: {error or 'no answer in time'}"
            return Unasked(self.trouble)
        except ApiError as error:
            self.trouble = f"is refused by the API: {error}"
            return Refused(self.trouble)
        finally:
            self.asked = asked
        return Ours() if other is None else Others(other)

    async def take(self, client: LeaseClient, *, watched: Lease | None = None) -> Lease | None:
        """Create or renew it, or take it where nobody holds it or it has not changed since `watched`, now or ever after. The Lease where it is somebody else's.

        One that this run held, and that nobody holds now, has been somebody else's meanwhile, and is not taken again. Raises what the client raises.
        """
        asked = self._elapsed()
        try:
            found = await client.get(LEASES, LEASE, NAMESPACE)
        except NotFound:
            body = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, **self._claim({"name": LEASE, "namespace": NAMESPACE})}
            writing = client.create(LEASES, body, NAMESPACE)
        else:
            if watched is not None and _version(found) == _version(watched):
                self._watched = _version(watched)
            free = not self._is_theirs(found) or _version(found) == self._watched
            if found.spec.holder_identity != self._holder.id if self.renewed is not None else not free:
                return found
            writing = client.merge_patch(LEASES, LEASE, self._claim({"resourceVersion": _version(found)}), NAMESPACE)
        try:
            await writing
        except (AlreadyExists, Conflict):  # somebody was faster: what it is now is looked at anew
            return await self.take(client)
        self.renewed, self.asked, self.trouble = asked, asked, "was not renewed in time"
        return None

    def has_outlasted(self, lease: Lease) -> bool:
        """Whether this one was found unchanged after it was watched for as long as it lasts, whether it could be taken or not."""
        return self._watched == _version(lease)

    async def look(self, client: LeaseClient) -> Lease | None:
        """The Lease as it is where it is not this run's; None while it is. Writes nothing, and raises what the client raises."""
        found = await client.get(LEASES, LEASE, NAMESPACE)
        return None if found.spec.holder_identity == self._holder.id else found

    async def give_back(self, api: Api) -> None:
        """Let the next one have it at once, as far as an API server can be asked. Idempotent."""
        self.renewed = None
        try:
            async with asyncio.timeout(_DEADLINE):
                client = await api()
                found = await client.get(LEASES, LEASE, NAMESPACE)
                if found.spec.holder_identity == self._holder.id:
                    patch = {"metadata": {"resourceVersion": _version(found)}, "spec": {"holderIdentity": ""}}
                    await client.merge_patch(LEASES, LEASE, patch, NAMESPACE)
        except (*_SILENT, ApiError):
            return  # it runs out

    def _is_theirs(self, lease: Lease) -> bool:
        if (lease.spec.holder_identity or "") in ("", self._holder.id):
            return False
        holder = holder_of(lease)
        return holder is None or not self._has_ended(holder)

    def _claim(self, metadata: dict[str, str]) -> dict[str, Any]:
        stamp = self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")  # metav1.MicroTime, which is UTC with six digits
        return {
            "metadata": {**metadata, "annotations": {HOLDER: self._holder.encode().decode()}},
            "spec": {"holderIdentity": self._holder.id, "leaseDurationSeconds": LASTS, "renewTime": stamp},
        }


def holder_of(lease: Lease) -> Holder | None:
    """Who holds it, as that run wrote it down."""
    return decode((lease.metadata.annotations or {}).get(HOLDER, ""))


def _version(lease: Lease) -> str:
    return lease.metadata.resource_version
