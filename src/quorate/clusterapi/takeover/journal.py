"""What is written down of a change-over in the management cluster: both installations whole, which way it goes, and whether it is over. One Secret."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec

from quorate.clusterapi.takeover import installation
from quorate.clusterapi.takeover.installation import Installation
from quorate.clusterapi.takeover.kinds import Object
from quorate.core.takeover.state import Journal, Side
from quorate.kubernetes.config import ConfigError

NAME = "quorate-takeover"
"""Of the Secret, in the namespace of the providers, and of the Lease that one run of a command holds."""
TYPE = "quorate.dev/takeover"
LARGEST = 1 << 20  # bytes of a Secret; upstream's installation takes 120 KB of it


class _Stored(msgspec.Struct, forbid_unknown_fields=True):
    toward: str
    since: datetime
    returning: str
    done: bool


@dataclass(frozen=True)
class Record:
    """The journal and the two installations that it is about."""

    journal: Journal
    upstream: Installation
    quorate: Installation

    def of(self, side: Side) -> Installation:
        """The installation of a side."""
        return self.upstream if side is Side.UPSTREAM else self.quorate

    def turned(self, journal: Journal) -> Record:
        """The same with another journal."""
        return replace(self, journal=journal)


def data(record: Record) -> dict[str, str]:
    """What the Secret holds. Raises ConfigError where that is more than a Secret can."""
    found = {**state(record.journal), **{side.value: _packed(record.of(side)) for side in Side}}
    if (size := sum(map(len, found.values()))) > LARGEST:
        raise ConfigError(
            f"the two installations take {size >> 10} KiB, and a Secret holds {LARGEST >> 10}: are there other objects in the file?"
        )
    return found


def state(journal: Journal) -> dict[str, str]:
    """The part that changes."""
    stored = _Stored(journal.toward.value, journal.since, journal.returning, journal.done)
    return {"state": base64.b64encode(msgspec.json.encode(stored)).decode()}


def read(secret: Mapping[str, Any]) -> Record:
    """What a Secret says. Raises ConfigError where it is none of ours."""
    found = secret.get("data") or {}
    try:
        stored = msgspec.json.decode(base64.b64decode(found["state"]), type=_Stored)
        journal = Journal(Side(stored.toward), stored.since, stored.returning, stored.done)
        sides = {side: installation.of(side, _unpacked(found[side.value])) for side in Side}
    except (KeyError, ValueError, TypeError, OSError, EOFError, msgspec.MsgspecError) as error:
        raise ConfigError(
            f"Secret {NAME} cannot be read ({type(error).__name__}): restore it from a backup, or delete it when one provider is installed whole"
        ) from error
    return Record(journal, sides[Side.UPSTREAM], sides[Side.QUORATE])


def _packed(which: Installation) -> str:
    return base64.b64encode(gzip.compress(msgspec.json.encode(list(which.objects.values())), mtime=0)).decode()


def _unpacked(text: str) -> list[Object]:
    return msgspec.json.decode(gzip.decompress(base64.b64decode(text)), type=list[dict[str, Any]])
