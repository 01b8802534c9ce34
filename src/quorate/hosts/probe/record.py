"""The lines of the probe: a key, how much is known, and fields. Whatever arrives can be read; what does not arrive, or makes no sense, is unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from quorate.core.health import Absent, Unknown
from quorate.core.text import printable
from quorate.hosts.probe.facts import Fact

T = TypeVar("T")
_LONGEST = 1 << 20  # characters of a field: all that a script may write, since certificates are long
Fields = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """What arrived, and why the rest did not: `missing` is the reason and the remedy of every fact without a line."""

    lines: Mapping[str, Fact[Fields]]
    missing: Unknown

    def read(self, key: str, decode: Callable[[Fields], Fact[T]]) -> Fact[T]:
        """The fact of that key. `decode` may raise ValueError, which makes it unknown."""
        return self._decoded(key, self.lines.get(key, self.missing), decode)

    def listed(self, keys: Mapping[str, str], closing: str, decode: Callable[[Fields], Fact[T]]) -> dict[str, Fact[T]]:
        """Facts by name, whose keys are given, of a list that is known to be whole once its closing line has come: what is not in it is absent then."""
        end = self.lines.get(closing, self.missing)
        rest = Absent() if isinstance(end, tuple) else end
        return {name: self._decoded(key, self.lines.get(key, rest), decode) for name, key in keys.items()}

    def names(self, prefix: str) -> Iterator[str]:
        """What follows the prefix in every key that has it."""
        return (key.removeprefix(prefix) for key in self.lines if key.startswith(prefix))

    def _decoded(self, key: str, fields: Fact[Fields], decode: Callable[[Fields], Fact[T]]) -> Fact[T]:
        if not isinstance(fields, tuple):
            return fields
        try:
            return decode(fields)
        except (ValueError, OverflowError) as error:
            return Unknown(f"the host's answer for {key} makes no sense: {error}")


def read_record(output: bytes, missing: Unknown) -> Record:
    """The record in the output of the probe. Never raises. A last line without its end is not read: its value may be cut off, and look whole."""
    lines: dict[str, Fact[Fields]] = {}
    for line in output.decode(errors="replace").split("\n")[:-1]:
        key, _, rest = line.partition("\t")
        kind, *fields = (printable(field, most=_LONGEST) for field in rest.split("\t"))
        match kind:
            case "=":
                lines.setdefault(key, tuple(fields))
            case "-":
                lines.setdefault(key, Absent())
            case "?":
                lines.setdefault(key, Unknown(" ".join(fields) or "the host did not say why"))
    return Record(lines, missing)
