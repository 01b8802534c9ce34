"""In which apiVersion each kind of infrastructure is served: what a reference of v1beta1 says, and one of v1beta2 does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from quorate.clusterapi.api.fields import object_at
from quorate.clusterapi.connect.foreign import ContractMissing, served_at
from quorate.kubernetes.client import Client
from quorate.kubernetes.reflector import TROUBLE

LASTS = 10.0  # seconds; a definition changes when somebody installs another release, and every list of v1beta1 asks

Kind = tuple[str, str]
"""Group and kind."""


class ApiVersions:
    """Looks kinds up in the management cluster when they are asked for, and again after LASTS by `clock`."""

    def __init__(self, client: Client, clock: Callable[[], float]) -> None:
        self._client, self._clock = client, clock
        self._found: dict[Kind, tuple[float, str]] = {}

    async def of(self, kinds: Iterable[Kind]) -> Callable[[str, str], str]:
        """What says for each of these kinds in which apiVersion it is served, and raises LookupError with the reason where that could not be found."""
        answers = {kind: await self._answer(*kind) for kind in set(kinds)}

        def api_version_of(group: str, kind: str) -> str:
            answer = answers[group, kind]
            if isinstance(answer, LookupError):
                raise answer
            return answer

        return api_version_of

    async def _answer(self, group: str, kind: str) -> str | LookupError:
        due, known = self._found.get((group, kind), (float("-inf"), ""))
        if self._clock() < due:
            return known
        try:
            version, _ = await served_at(self._client, group, kind)
        except (ContractMissing, *TROUBLE) as error:
            return LookupError(str(error))
        self._found[group, kind] = self._clock() + LASTS, f"{group}/{version}"
        return f"{group}/{version}"


def referenced(obj: Mapping[str, Any]) -> Kind:
    """The kind of infrastructure that a control plane of v1beta2 refers to; empty where it refers to none, as templates do."""
    reference = object_at(obj, "spec", "machineTemplate", "spec", "infrastructureRef")
    return str(reference.get("apiGroup") or ""), str(reference.get("kind") or "")
