"""The closed set of steps of a change-over; as text, an instruction for a reader."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.core.takeover.state import Key, Side


@dataclass(frozen=True, slots=True)
class Begin:
    """Write both installations down in the management cluster, whole, before anything of them is changed."""

    def __str__(self) -> str:
        return "save both installations in the management cluster"


@dataclass(frozen=True, slots=True)
class Turn:
    """Go the other way from here on: everything is put back, because of `reason` ("": somebody asked for it)."""

    toward: Side
    reason: str = ""

    def __str__(self) -> str:
        return f"go back to {self.toward}: {self.reason}" if self.reason else f"go to {self.toward}"


@dataclass(frozen=True, slots=True)
class Put:
    """Give an object the form that the coming installation has for it; `both`: with the rights that the leaving provider has, too."""

    key: Key
    both: bool = False

    def __str__(self) -> str:
        return f"write {self.key}{' with the rights of both' if self.both else ''}"


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object that the leaving installation alone has."""

    key: Key

    def __str__(self) -> str:
        return f"delete {self.key}"


@dataclass(frozen=True, slots=True)
class Stop:
    """Scale the leaving provider's Deployment to 0."""

    key: Key

    def __str__(self) -> str:
        return f"scale {self.key} to 0"


@dataclass(frozen=True, slots=True)
class FreeLease:
    """Take the Lease from a holder that is gone, so that the other need not wait until it runs out."""

    holder: str

    def __str__(self) -> str:
        return f"free the Lease of {self.holder}, which is gone"


@dataclass(frozen=True, slots=True)
class Finish:
    """Write down that the change is over."""

    def __str__(self) -> str:
        return "write down that the change is over"


Step = Begin | Turn | Put | Delete | Stop | FreeLease | Finish
"""Any step."""

EVERYTHING: frozenset[type[Step]] = frozenset(Step.__args__)
