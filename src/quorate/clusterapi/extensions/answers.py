"""What extensions have answered, for as long as nothing changes that they were shown. Kept in memory alone: after a start they are asked anew."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from quorate.core.machines.state import Answer, InPlace
from quorate.kubernetes.controller import Request

FIRST_RETRY, LONGEST_RETRY = timedelta(seconds=5), timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class _Kept:
    asked: bytes  # the fingerprint of what was asked
    in_place: InPlace
    failures: int = 0  # in a row


class Answers:
    """By control plane and Machine."""

    def __init__(self) -> None:
        self._kept: dict[Request, dict[str, _Kept]] = {}

    def of(self, request: Request, uid: str, asked: bytes) -> InPlace | None:
        """What was answered about the Machine with this uid; None where nobody was asked, or something else was."""
        kept = self._kept.get(request, {}).get(uid)
        return kept.in_place if kept is not None and kept.asked == asked else None

    def keep(self, request: Request, uid: str, asked: bytes, in_place: InPlace, now: datetime, *, among: Collection[str]) -> None:
        """Remember an answer, and of no Machines but those in `among`, this one too. Where nobody answered it is asked again after a pause that doubles."""
        before = self._kept.get(request, {})
        failed_before = before[uid].failures if uid in before and before[uid].asked == asked else 0
        failures = failed_before + 1 if in_place.answer is Answer.UNKNOWN else 0
        if failures:
            in_place = replace(in_place, retry_at=now + min(FIRST_RETRY * 2 ** min(failures - 1, 10), LONGEST_RETRY))
        others = {other: kept for other, kept in before.items() if other in among}
        self._kept[request] = {**others, uid: _Kept(asked, in_place, failures)}

    def forget(self, request: Request) -> None:
        """The control plane is gone."""
        self._kept.pop(request, None)
