"""One workload cluster, connected: watches on its control-plane Nodes and Pods, a probe when they are silent or end badly, and the way to its etcd.

Upstream's ClusterCache tries again every 30 s and probes every 10 s. Here the tries are under a second apart while a control plane is expected to come up,
whatever the watches tell counts as a sign of life, and every change is told at once.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from random import Random
from typing import Generic, Protocol, TypeVar

import structlog

from quorate.core.health import Absent, Unknown
from quorate.core.text import printable
from quorate.etcd.client import EtcdClient
from quorate.etcd.dialers import Dialer
from quorate.etcd.pool import Access, Pool
from quorate.kubernetes.config import ConfigError, RestConfig
from quorate.kubernetes.errors import NotFound, TooMuch, Unauthorized
from quorate.kubernetes.objects import Node, Pod
from quorate.kubernetes.queue import Backoff
from quorate.kubernetes.reflector import TROUBLE, ListWatch
from quorate.kubernetes.resource import CONFIG_MAPS, NODES, Resource
from quorate.kubernetes.share import Share
from quorate.kubernetes.tasks import cancelled_by_request_alone, sole
from quorate.workload.access import AccessUnavailable, AdminKubeconfig, EtcdIdentity, Mint, Secrets
from quorate.workload.membership import RingReading, read_ring
from quorate.workload.static_pods import NAMESPACE, Component
from quorate.workload.turns import Turns
from quorate.workload.updates import CannotUpdate
from quorate.workload.watches import Watches, kept_node

T = TypeVar("T")

_log = structlog.get_logger(__name__)

PROBE_AFTER = 25.0
"""Seconds of silence after which the API server is probed. An API server that goes away ends the watches, and is probed at once."""
PROBE_AGAIN = 10.0
"""Seconds between probes that fail, from the beginning of one to that of the next."""
PROBE_TIMEOUT = 5.0
LOST_AFTER_FAILURES = 5
LOST_AFTER = 75.0
"""Seconds of silence after which the connection is lost whatever the number of probes: upstream's five of 10 s and 5 s."""
BEGUN_ANEW_WITHIN = 10.0
"""Seconds for a watch that was silent, and ended for it, to be begun anew: on some servers it is silent for longer than LOST_AFTER while nothing happens."""
SYNC_TIMEOUT = 10.0
"""Seconds that connecting may take in all, and then the first lists of Nodes and Pods."""
LASTED = 10.0
"""Seconds after which a connection was one. Who lets us in and out again at once is left alone for ever longer, as who does not answer is."""
EAGER_FOR = 600.0
"""Seconds that a machine may take from its providerID to an answer before nobody hurries for it any more: kubeadm gives up sooner."""

_PART, _BURST = 0.02, 1.0
"""The part of our time that one cluster's API server may have with what it sends, and the seconds at once. To connect takes 20 ms, the largest lists that are
read half a second, and a control plane at rest next to nothing.
"""

_ASKED_AT_ONCE = 5  # for one object each, so that their answers are not in memory all at once

_FIRST_PAUSE, _EAGER_PAUSE, _LONGEST_PAUSE = 0.2, 1.0, 30.0


class Phase(Enum):
    """Where a connection is in its life."""

    NEVER_CONNECTED = "never connected"
    CONNECTED = "connected"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Connectivity:
    """How the connection is, and how it came to that."""

    phase: Phase
    since: datetime  # of the phase
    reason: str = ""  # why there is no connection, or why the last probe failed
    last_success: datetime | None = None  # when the cluster last answered anything
    consecutive_failures: int = 0  # of probes and of attempts to connect


class WorkloadClient(ListWatch, Protocol):
    """What is needed of a client of the workload cluster: quorate.kubernetes.client.Client has it all."""

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """One object."""
        ...

    async def get_raw(self, path: str) -> bytes:
        """Whatever is at a path."""
        ...

    async def close(self) -> None:
        """Close every connection."""
        ...


Client = TypeVar("Client", bound=WorkloadClient)


@dataclass(frozen=True, slots=True)
class Setup(Generic[Client]):
    """What a Workload is made with; the same for every cluster of a process."""

    connect: Callable[[RestConfig, Share], Client]  # does no I/O of its own; raises ValueError where the certificates are malformed
    dialer: Callable[[Client], Dialer]
    mint: Mint
    pool: Pool
    now: Callable[[], datetime]
    random: Random
    certificate_expiry: Callable[[Client, str, int], Awaitable[datetime]]  # of the API server on a node at a port; raises CannotUpdate
    turns: Turns = field(default_factory=Turns)
    room: int | None = None  # for so many clusters there are file descriptors, where that is known
    inactivity: float = 70.0  # seconds that a watch may be silent; 130 for Cluster API's in-memory provider, which sends no bookmarks


@dataclass(frozen=True, slots=True)
class _Session(Generic[Client]):
    """One connection, from the first lists to the loss."""

    client: Client
    dialer: Dialer
    watches: Watches


@dataclass(frozen=True, slots=True)
class _Ending:
    reason: str
    unauthorized: bool = False


class Workload(Generic[Client]):
    """The connection to one workload cluster, kept while `run` runs. `cluster` is its namespace/name.

    `on_change` is called, and must not block, when the connection comes or goes and when a control-plane Node or Pod changes.
    What is read here while there is no connection is Unknown, with the reason: nothing old is ever passed off as new.
    """

    def __init__(self, cluster: str, secrets: Secrets, setup: Setup[Client], on_change: Callable[[], None]) -> None:
        self.cluster = cluster
        self.connectivity = Connectivity(Phase.NEVER_CONNECTED, setup.now(), "no attempt to connect has ended yet")
        self._secrets = secrets
        self._setup = setup
        self._on_change = on_change
        self._identity = EtcdIdentity(setup.mint)
        self._share = Share(_PART, _BURST)
        self._expected: frozenset[str] = frozenset()
        self._eager_until = 0.0
        self._hurry = asyncio.Event()
        self._session: _Session[Client] | None = None
        self._kubeconfig = AdminKubeconfig(secrets)
        self._asking = asyncio.Semaphore(_ASKED_AT_ONCE)
        self._heard_at = self._began_at = 0.0
        self._attempts = 0  # that have ended since a connection lasted

    def expect_soon(self, machines: Iterable[str]) -> None:
        """Try at most 1 s apart while these machines come up, until ten minutes after the last of them was named first; otherwise up to 30 s apart.

        A cluster that never answers would be dialled every second for ever, at the cost of all others.
        """
        expected = frozenset(machines)
        if expected - self._expected:
            self._eager_until = _loop_time() + EAGER_FOR
            self._hurry.set()
        self._expected = expected

    async def run(self) -> None:
        """Connect, watch, probe, and connect again when that ends, until cancelled."""
        while True:
            ending = await self._contained_attempt()
            was_connected = self.connectivity.phase is Phase.CONNECTED
            if was_connected and _loop_time() - self._began_at >= LASTED:
                self._attempts = 0
            at_once = was_connected and ending.unauthorized and not self._attempts  # a rotated kubeconfig is read again
            self._ended(ending, was_connected=was_connected)
            if not at_once:
                await self._pause()

    # What the cluster tells.

    @property
    def client(self) -> Client | Unknown:
        """The client of the connected cluster."""
        session = self._connected()
        return session if isinstance(session, Unknown) else session.client

    def nodes(self) -> tuple[Node, ...] | Unknown:
        """The Nodes labelled as control plane, as the watch knows them."""
        session = self._connected()
        return session if isinstance(session, Unknown) else tuple(session.watches.nodes.store.items())

    def running(self, component: Component) -> frozenset[str] | Unknown:
        """The names of the Nodes, with the label or without, that have a static Pod of a component, as the watch knows them."""
        session = self._connected()
        if isinstance(session, Unknown):
            return session
        prefix = component.pod_name("")
        names = (pod.metadata.name for pod in session.watches.pods.store.items())
        return frozenset(name.removeprefix(prefix) for name in names if name.startswith(prefix))

    async def node(self, name: str) -> Node | Absent | Unknown:
        """A Node, asked for by name where the watch has none: one that lacks the label must not pass for missing."""
        session = self._connected()
        if isinstance(session, Unknown):
            return session
        if (known := session.watches.nodes.store.get("", name)) is not None:
            return known
        asked = await self._read(session.client, NODES, name)
        try:
            return kept_node(asked) if isinstance(asked, Node) else asked
        except TooMuch as error:
            return Unknown(str(error))

    def pod(self, component: Component, node: str) -> Pod | Absent | Unknown:
        """The static Pod of a component on a node, as the watch knows it."""
        session = self._connected()
        if isinstance(session, Unknown):
            return session
        return session.watches.pods.store.get(NAMESPACE, component.pod_name(node)) or Absent()

    async def kubeadm_config_exists(self) -> bool | Unknown:
        """Whether kubeadm has initialized the cluster: it then keeps its configuration in a ConfigMap."""
        session = self._connected()
        if isinstance(session, Unknown):
            return session
        found = await self._read(session.client, CONFIG_MAPS, "kubeadm-config", NAMESPACE)
        return found if isinstance(found, Unknown) else not isinstance(found, Absent)

    async def certificate_expiry(self, node: str, port: int) -> datetime:
        """When the certificate of the API server on a node expires. Raises CannotUpdate where that cannot be told. Takes at most 15 s."""
        session = self._connected()
        if isinstance(session, Unknown):
            raise CannotUpdate(session.reason)
        return await self._setup.certificate_expiry(session.client, node, port)

    # Its etcd.

    async def read_ring(self, nodes: Iterable[str]) -> RingReading | Unknown:
        """The ring as the members on `nodes` tell it now. Good enough for destroying by, when it was read for that."""
        access = await self._etcd_access()
        if isinstance(access, Unknown):
            return access

        def lend(node: str) -> AbstractAsyncContextManager[EtcdClient]:
            return self._setup.pool.client(self.cluster, node, access)

        return await read_ring(lend, tuple(nodes), self._setup.now)

    @asynccontextmanager
    async def etcd(self, node: str) -> AsyncIterator[EtcdClient]:
        """The etcd member on a node, for a change. Raises AccessUnavailable where there is no way to it, EtcdError where it does not do as asked."""
        access = await self._etcd_access()
        if isinstance(access, Unknown):
            raise AccessUnavailable(access.reason)
        async with self._setup.pool.client(self.cluster, node, access) as client:
            yield client

    async def _etcd_access(self) -> Access | Unknown:
        if isinstance(session := self._connected(), Unknown):
            return session
        try:
            credentials = await self._identity.credentials(await self._secrets.etcd())
        except AccessUnavailable as error:
            return Unknown(str(error))
        moved = await self._kubeconfig.moved()
        if isinstance(session := self._connected(), Unknown):  # that of now: another one may have begun meanwhile
            return session
        if moved:
            session.watches.troubled.set()  # which ends the session
            return Unknown(moved)
        return Access(session.dialer, credentials)

    # The connection itself.

    def _connected(self) -> _Session[Client] | Unknown:
        return self._session or Unknown(f"the workload cluster is not connected: {self.connectivity.reason}")

    async def _read(self, client: Client, resource: Resource[T], name: str, namespace: str = "") -> T | Absent | Unknown:
        try:
            async with asyncio.timeout(SYNC_TIMEOUT), self._asking:
                return await client.get(resource, name, namespace)
        except NotFound:
            return Absent()
        except TROUBLE as error:
            return Unknown(_text(error))

    async def _contained_attempt(self) -> _Ending:
        """An attempt that ends no other cluster's: whatever this one answers, and whatever mistake of ours that brings to light, is its own."""
        try:
            with cancelled_by_request_alone():
                async with self._setup.turns.turn() as connected:
                    return await self._attempt(connected)
        except Exception as error:  # noqa: BLE001 - one tenant's trouble must not stop the others
            cause = sole(error) if isinstance(error, ExceptionGroup) else error
            _log.error("a workload cluster's answers could not be processed", cluster=self.cluster, exc_info=cause)
            return _Ending(printable(f"its answers could not be processed: {type(cause).__name__}: {cause}"))

    async def _attempt(self, connected: Callable[[], None]) -> _Ending:
        try:
            kubeconfig = await self._kubeconfig.read()
            client = self._setup.connect(kubeconfig.rest_config(os.environ), self._share)
        except (AccessUnavailable, ConfigError, ValueError) as error:
            return _Ending(str(error))
        try:
            failure = await self._probe(client)
            return _ending(failure) if failure else await self._watched(client, connected)
        finally:
            self._session = None
            await self._setup.pool.forget(self.cluster)  # before the client, through which the members may be reached
            await client.close()

    async def _watched(self, client: Client, connected: Callable[[], None]) -> _Ending:
        watches = Watches(client, self._setup.random, self._on_change, inactivity=self._setup.inactivity)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(watches.run())
            if (ending := await self._synced(watches)) is None:
                connected()
                self._begin(_Session(client, self._setup.dialer(client), watches))
                ending = await self._while_it_lasts(client, watches)
            running.cancel()
        return ending

    async def _synced(self, watches: Watches) -> _Ending | None:
        try:
            async with asyncio.timeout(SYNC_TIMEOUT):
                await watches.synced()
        except TimeoutError:
            why = _text(watches.last_error) if watches.last_error else "no answer"
            return _Ending(
                f"Nodes and Pods could not be listed within {SYNC_TIMEOUT:g} s: {why}", isinstance(watches.last_error, Unauthorized)
            )
        return None

    def _begin(self, session: _Session[Client]) -> None:
        self._session = session
        now = self._setup.now()
        self._heard_at = self._began_at = _loop_time()
        self.connectivity = Connectivity(Phase.CONNECTED, now, last_success=now)
        self._on_change()

    async def _while_it_lasts(self, client: Client, watches: Watches) -> _Ending:
        next_probe = self._heard_at + PROBE_AFTER
        while True:
            failing = self.connectivity.consecutive_failures > 0
            troubled = await _set_within(watches.over if failing else watches.troubled, next_probe - _loop_time())
            if watches.over.is_set():
                return _over(watches.last_error)
            if error := watches.outdated(_loop_time() - LOST_AFTER, failing_since=_loop_time() - BEGUN_ANEW_WITHIN):
                return _Ending(f"Nodes and Pods could not be watched for {LOST_AFTER:g} s: {_text(error)}")
            if moved := await self._kubeconfig.moved():
                return _Ending(moved)
            if self._hear(watches) and not troubled:
                next_probe = self._heard_at + PROBE_AFTER
                continue
            watches.troubled.clear()
            started = _loop_time()
            error = await self._probe(client)
            self._probed(error)
            if error and (isinstance(error, Unauthorized) or self._is_lost()):
                return _ending(error)
            next_probe = started + (PROBE_AGAIN if error else PROBE_AFTER)

    def _hear(self, watches: Watches) -> bool:
        """Take note of what the watches heard since; whether that is anything."""
        if watches.heard_at <= self._heard_at:
            return False
        self._heard_at = watches.heard_at
        self.connectivity = replace(self.connectivity, reason="", last_success=self._setup.now(), consecutive_failures=0)
        return True

    def _probed(self, error: Exception | None) -> None:
        if error is None:
            self._heard_at = _loop_time()
            self.connectivity = replace(self.connectivity, reason="", last_success=self._setup.now(), consecutive_failures=0)
        else:
            failures = self.connectivity.consecutive_failures + 1
            self.connectivity = replace(self.connectivity, reason=_text(error), consecutive_failures=failures)

    def _is_lost(self) -> bool:
        return self.connectivity.consecutive_failures >= LOST_AFTER_FAILURES or _loop_time() - self._heard_at >= LOST_AFTER

    async def _probe(self, client: Client) -> Exception | None:
        try:
            async with asyncio.timeout(PROBE_TIMEOUT):
                await client.get_raw("/")
        except (*TROUBLE, ConfigError) as error:
            return error
        return None

    def _ended(self, ending: _Ending, *, was_connected: bool) -> None:
        before = self.connectivity
        self._attempts += 1
        if was_connected:
            self.connectivity = replace(before, phase=Phase.LOST, since=self._setup.now(), reason=ending.reason)
            self._on_change()
        else:
            self.connectivity = replace(before, reason=ending.reason, consecutive_failures=before.consecutive_failures + 1)

    async def _pause(self) -> None:
        eager = self._expected and _loop_time() < self._eager_until
        cap = _EAGER_PAUSE if eager else _LONGEST_PAUSE
        backoff = Backoff(_FIRST_PAUSE, cap, self._setup.random, jitter=0.2)
        await _set_within(self._hurry, backoff.delay(self._attempts - 1))
        self._hurry.clear()


def _ending(error: Exception) -> _Ending:
    return _Ending(_text(error), isinstance(error, Unauthorized))


def _over(error: Exception | None) -> _Ending:
    return _Ending(_text(error)) if isinstance(error, TooMuch) else _Ending("the credentials are no longer accepted", unauthorized=True)


def _text(error: Exception) -> str:
    return str(error) or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


async def _set_within(event: asyncio.Event, seconds: float) -> bool:
    """Wait for the event for so long; whether it is set."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await event.wait()
    except TimeoutError:
        return event.is_set()
    return True
