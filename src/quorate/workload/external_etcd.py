"""The health of an external etcd, as the API server reports it: quorate does not ask its members."""

from __future__ import annotations

import asyncio
from typing import Protocol

from quorate.core.health import Finding, Health
from quorate.kubernetes.errors import NotFound, ServerError, Timeout
from quorate.kubernetes.reflector import TROUBLE

READY = "/readyz/etcd"
"""One check of the API server's readiness: can it read from etcd. Source: k8s.io/apiserver's storage factory health check."""
TIMEOUT = 5.0
"""Seconds for the answer; the API server itself gives its etcd 2 s by default."""

HEALTHY, NOT_HEALTHY, INSPECTION_FAILED = "Healthy", "NotHealthy", "InspectionFailed"


class Asked(Protocol):
    """What is needed of a client of the workload cluster."""

    async def get_raw(self, path: str) -> bytes:
        """Whatever is at a path."""
        ...


async def external_etcd_health(client: Asked) -> Finding:
    """GOOD or BAD by the API server's own word; UNKNOWN with the reason where it gave none, or has no such check (Cluster API's in-memory provider)."""
    try:
        async with asyncio.timeout(TIMEOUT):
            await client.get_raw(READY)
    except NotFound:
        return Finding(Health.UNKNOWN, INSPECTION_FAILED, f"the API server has no {READY} to ask")
    except Timeout as error:
        return Finding(Health.UNKNOWN, INSPECTION_FAILED, f"the API server gave no answer about its etcd: {error}")
    except ServerError as error:
        return Finding(Health.BAD, NOT_HEALTHY, f"the API server does not reach its etcd: {error}")
    except TROUBLE as error:
        return Finding(
            Health.UNKNOWN, INSPECTION_FAILED, f"the API server could not be asked about its etcd: {str(error) or type(error).__name__}"
        )
    return Finding(Health.GOOD, HEALTHY)
