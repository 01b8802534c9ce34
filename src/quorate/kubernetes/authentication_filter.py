"""Who may read what a server of ours offers: asked of the API server, which knows every user's token and rights (TokenReview and SubjectAccessReview).

Source: controller-runtime, pkg/metrics/filters, for the questions and the answers.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog

from quorate.kubernetes.client import Client
from quorate.kubernetes.config import ConfigError
from quorate.kubernetes.errors import ApiError, ConnectionFailed
from quorate.kubernetes.objects import Object
from quorate.kubernetes.resource import Resource

ALLOWED_FOR, DENIED_FOR = 60.0, 30.0  # seconds that an answer holds; a scraper comes every 15 to 60
_MOST_ANSWERS = 1000  # kept at once; whoever sends ever new tokens gets no memory of ours for it

_log = structlog.get_logger(__name__)


class _User(Object):
    username: str = ""
    uid: str = ""
    groups: list[str] = msgspec.field(default_factory=list)
    extra: dict[str, list[str]] = msgspec.field(default_factory=dict)


class _TokenReviewStatus(Object):
    authenticated: bool = False
    user: _User = _User()


class _TokenReview(Object):
    status: _TokenReviewStatus = _TokenReviewStatus()


class _AccessReviewStatus(Object):
    allowed: bool = False


class _AccessReview(Object):
    status: _AccessReviewStatus = _AccessReviewStatus()


_TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", _TokenReview, namespaced=False)
_ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", _AccessReview, namespaced=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP status, 200 where the request may pass, and what to tell whoever may not."""

    status: int
    text: str = ""


class AuthenticationFilter:
    """Authenticates requests by their bearer token. Its `client` is its own, so that strangers cannot use up the requests of anybody else, and closes it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._answers: dict[tuple[bytes, str, str], tuple[Answer, float]] = {}

    async def judge(self, authorization: str, method: str, path: str) -> Answer:
        """Whether the bearer of this Authorization header may do this to the path: the rule of a role is `nonResourceURLs` with the method as its verb."""
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return Answer(401, "Unauthorized")
        now, key = asyncio.get_running_loop().time(), (hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest(), method, path)
        known = self._answers.get(key)
        if known is not None and known[1] > now:
            return known[0]
        answer = await self._asked(token, method, path)
        if answer.status < 500:
            self._keep(key, answer, now)
        return answer

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._client.close()

    async def _asked(self, token: str, method: str, path: str) -> Answer:
        try:
            user = await self._user(token)
            if user is None:
                return Answer(401, "Unauthorized")
            if await self._may(user, method, path):
                return Answer(200)
            return Answer(403, f"Authorization denied for user {user.username}")
        except (ApiError, ConnectionFailed, ConfigError) as error:
            _log.warning("a request could not be authenticated", path=path, error=str(error))
            return Answer(500, "Authentication failed")

    async def _user(self, token: str) -> _User | None:
        body = {"apiVersion": _TOKEN_REVIEWS.api_version, "kind": _TOKEN_REVIEWS.kind, "spec": {"token": token}}
        status = (await self._client.create(_TOKEN_REVIEWS, body)).status
        return status.user if status.authenticated else None

    async def _may(self, user: _User, method: str, path: str) -> bool:
        attributes: dict[str, Any] = {"path": path, "verb": method.lower()}
        spec = {"user": user.username, "uid": user.uid, "groups": user.groups, "extra": user.extra, "nonResourceAttributes": attributes}
        body = {"apiVersion": _ACCESS_REVIEWS.api_version, "kind": _ACCESS_REVIEWS.kind, "spec": spec}
        return (await self._client.create(_ACCESS_REVIEWS, body)).status.allowed

    def _keep(self, key: tuple[bytes, str, str], answer: Answer, now: float) -> None:
        if len(self._answers) >= _MOST_ANSWERS:
            self._answers = {known: entry for known, entry in self._answers.items() if entry[1] > now}
        if len(self._answers) < _MOST_ANSWERS:
            self._answers[key] = answer, now + (ALLOWED_FOR if answer.status < 300 else DENIED_FOR)
