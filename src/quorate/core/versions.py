"""Kubernetes versions: parsing, ordering and the few questions asked of them.

Source: semantic versioning 2.0.0 for the order; Kubernetes' version skew policy for `minor_distance` and `within_one_minor`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache, total_ordering

_NUMBER = r"(?:0|[1-9][0-9]*)"
_PRERELEASE = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"  # leading zeros would make two texts of one number
_BUILD = r"[0-9A-Za-z-]+"
_LONGEST = 256  # characters; Python makes no numbers of thousands of digits
_PATTERN = re.compile(rf"v?({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_PRERELEASE}(?:\.{_PRERELEASE})*))?(?:\+({_BUILD}(?:\.{_BUILD})*))?")


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """One version. Equal and ordered as semantic versioning orders: build metadata is carried, and ignored."""

    major: int
    minor: int
    patch: int
    prerelease: str = ""
    build: str = ""
    text: str = field(default="")

    @classmethod
    def parse(cls, text: str) -> Version:
        """The version that `text` names, with or without a leading `v`; raises ValueError naming the text."""
        match = _PATTERN.fullmatch(text) if len(text) <= _LONGEST else None
        if match is None:
            raise ValueError(f"{text[:_LONGEST]!r} is not a version such as v1.34.4")
        major, minor, patch, prerelease, build = match.groups()
        return cls(int(major), int(minor), int(patch), prerelease or "", build or "", text)

    @property
    def release(self) -> tuple[int, int, int]:
        """The three numbers, without pre-release: what feature gates are decided by."""
        return self.major, self.minor, self.patch

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self._key == other._key

    def __lt__(self, other: Version) -> bool:
        return self._key < other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[tuple[int, int, int], bool, tuple[tuple[bool, int, str], ...]]:
        # A pre-release sorts before its release; numeric identifiers before and apart from alphanumeric ones.
        parts = self.prerelease.split(".") if self.prerelease else []
        identifiers = tuple((False, int(part), "") if part.isdigit() else (True, 0, part) for part in parts)
        return self.release, not self.prerelease, identifiers


@lru_cache(maxsize=1024)  # a decision asks for the same few again and again
def parse_or_none(text: str) -> Version | None:
    """The version, or None where `text` is not one."""
    try:
        return Version.parse(text)
    except ValueError:
        return None


def minor_distance(first: Version, second: Version) -> int | None:
    """How many minors lie from `first` up to `second` (negative: down); None across majors, where no skew is defined."""
    return second.minor - first.minor if first.major == second.major else None


def within_one_minor(first: Version, second: Version) -> bool:
    """Whether the two may run side by side in one control plane: at most one minor apart, and never across majors."""
    distance = minor_distance(first, second)
    return distance is not None and abs(distance) <= 1
