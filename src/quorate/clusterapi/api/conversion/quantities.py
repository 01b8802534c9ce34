"""Quantities as Kubernetes writes what it has read: mostly in one notation for each (0.5 is 500m, 1024Ki is 1Mi), some as they were.

Source: k8s.io/apimachinery, pkg/api/resource (quantity.go, amount.go, suffix.go).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from quorate.clusterapi.api.conversion.forms import Form, of_type

_QUANTITY = re.compile(r"([+-]?)0*([0-9]*)(?:\.([0-9]*))?(?:([KMGTPE]i)|([numkMGTPE]?)|[eE]([+-]?[0-9]+))")
_DIGIT = re.compile(r"[+-]?\.?[0-9]")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_POWERS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SUFFIXES = {power: suffix for suffix, power in _POWERS.items()}
_FINEST = -9  # the power of ten below which everything is rounded up
_LARGEST = 2**63 - 1  # with a binary suffix; others have no bound
_MOST_DIGITS = 18  # of a number that is reckoned with as one of 64 bits
_MOST_BINARY_DIGITS = 14


@dataclass(frozen=True, slots=True)
class _Decimal:
    """A whole number of powers of ten."""

    number: int
    power: int

    def rounded_up(self) -> _Decimal:
        """To billionths: what is not zero stays so."""
        excess = _FINEST - self.power
        if excess <= 0 or not self.number:
            return self
        return _Decimal(-(-self.number // 10**excess) if excess <= len(str(self.number)) else 1, _FINEST)

    def written(self, *, exponent: bool) -> str:
        """With a power that is a multiple of three, and no more zeros in the number than that takes.

        A power for which there is no suffix is lost, as it is upstream: 1000E becomes 1.
        """
        number, power = self.number, self.power
        while number % 10 == 0:
            number, power = number // 10, power + 1
        number, power = number * 10 ** (power % 3), power - power % 3
        return f"{number}{f'e{power}' if exponent and power else _SUFFIXES.get(power, '')}"


def canonical(text: str) -> str:
    """The quantity as Kubernetes writes it. Raises ValueError for what is none."""
    found = _QUANTITY.fullmatch(text)
    if found is None or not _DIGIT.match(text):
        raise ValueError(f"{text!r} is not a quantity such as 500m or 1Gi")
    sign, whole, part, binary, decimal, exponent = (group or "" for group in found.groups())
    digits = (whole or "0") + part
    if not int(digits):
        return "0"
    minus = "-" if sign == "-" else ""
    if binary:
        power = _BINARY.index(binary)
        return text if _is_kept_binary(digits, part, power) else minus + _binary(int(digits), len(part), power)
    power = (int(exponent) if exponent else _POWERS[decimal]) - len(part)
    return text if _is_kept(digits, power) else minus + _Decimal(int(digits), power).rounded_up().written(exponent=bool(exponent))


def _is_kept(digits: str, power: int) -> bool:
    """Whether upstream takes it for canonical: with a sign, leading zeros or a point as well."""
    return len(digits) <= _MOST_DIGITS and power >= _FINEST and power % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


def _is_kept_binary(digits: str, part: str, power: int) -> bool:
    return not part and len(digits) + 3 * power <= _MOST_BINARY_DIGITS and int(digits) % 8 != 0


def _binary(number: int, places: int, power: int) -> str:
    """In powers of 1024, where it is a whole number of at least 1024; else in powers of ten."""
    size = Fraction(number * 1024**power, 10**places)
    billionths = min(ceil(size * 10**9), _LARGEST * 10**9)
    whole, rest = divmod(billionths, 10**9)
    if rest or whole < 1024:
        return _Decimal(billionths, _FINEST).written(exponent=False)
    power = 0
    while whole % 1024 == 0:
        whole, power = whole // 1024, power + 1
    return f"{whole}{_BINARY[power]}"


QUANTITY = Form(
    lambda json: canonical(json if isinstance(json, str) else str(of_type(int, json, "a quantity"))), lambda value: value, zero="0"
)
