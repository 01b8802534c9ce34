"""Who may read: what is asked of the API server, how it is answered, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest

from quorate.kubernetes.authentication_filter import ALLOWED_FOR, DENIED_FOR, Answer, AuthenticationFilter
from quorate.kubernetes.errors import ConnectionFailed, Forbidden
from quorate.kubernetes.resource import Resource

TOKENS = {"prometheus-token": "prometheus", "stranger-token": "stranger"}
UNAUTHORIZED = Answer(401, "Unauthorized")


@dataclass
class Api:
    """Knows two users; one of them may read."""

    asked: list[tuple[str, Any]] = field(default_factory=list)
    trouble: Exception | None = None

    async def create(self, resource: Resource[Any], body: Mapping[str, Any]) -> Any:
        self.asked.append((resource.path(), body["spec"]))
        if self.trouble:
            raise self.trouble
        if resource.plural == "tokenreviews":
            user = TOKENS.get(body["spec"]["token"])
            status: dict[str, Any] = (
                {"authenticated": True, "user": {"username": user, "groups": ["g"], "extra": {"a": ["b"]}}} if user else {}
            )
        else:
            status = {"allowed": body["spec"]["user"] == "prometheus"}
        return msgspec.convert({"status": status}, resource.type)


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def authentication_filter(api: Api) -> AuthenticationFilter:
    return AuthenticationFilter(cast("Any", api))


async def judged(authentication_filter: AuthenticationFilter, token: str) -> Answer:
    return await authentication_filter.judge(f"Bearer {token}", "GET", "/metrics")


async def test_a_user_with_the_right_passes_and_the_api_server_is_asked_for_verb_and_path(
    authentication_filter: AuthenticationFilter, api: Api
) -> None:
    assert await judged(authentication_filter, "prometheus-token") == Answer(200)
    attributes = {"path": "/metrics", "verb": "get"}
    spec = {"user": "prometheus", "uid": "", "groups": ["g"], "extra": {"a": ["b"]}, "nonResourceAttributes": attributes}
    assert api.asked == [
        ("/apis/authentication.k8s.io/v1/tokenreviews", {"token": "prometheus-token"}),
        ("/apis/authorization.k8s.io/v1/subjectaccessreviews", spec),
    ]


async def test_a_user_without_the_right_is_told_so(authentication_filter: AuthenticationFilter) -> None:
    assert await judged(authentication_filter, "stranger-token") == Answer(403, "Authorization denied for user stranger")


async def test_an_unknown_token_is_refused(authentication_filter: AuthenticationFilter) -> None:
    assert await judged(authentication_filter, "made-up") == UNAUTHORIZED


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic cHJvbWV0aGV1cw==", "prometheus-token"])
async def test_without_a_token_nobody_is_asked(authentication_filter: AuthenticationFilter, api: Api, header: str) -> None:
    assert await authentication_filter.judge(header, "GET", "/metrics") == UNAUTHORIZED
    assert api.asked == []


@pytest.mark.parametrize("error", [ConnectionFailed("refused"), Forbidden("create tokenreviews: not allowed")])
async def test_what_cannot_be_judged_does_not_pass_and_is_asked_again(
    authentication_filter: AuthenticationFilter, api: Api, error: Exception
) -> None:
    api.trouble = error
    assert await judged(authentication_filter, "prometheus-token") == Answer(500, "Authentication failed")
    api.trouble = None
    assert await judged(authentication_filter, "prometheus-token") == Answer(200)


@pytest.mark.parametrize(("token", "seconds"), [("prometheus-token", ALLOWED_FOR), ("stranger-token", DENIED_FOR), ("made-up", DENIED_FOR)])
async def test_an_answer_holds_for_its_time_and_is_asked_for_anew_after_it(
    authentication_filter: AuthenticationFilter, api: Api, token: str, seconds: float
) -> None:
    await judged(authentication_filter, token)
    asked = len(api.asked)
    await asyncio.sleep(seconds - 1)
    await judged(authentication_filter, token)
    assert len(api.asked) == asked
    await asyncio.sleep(1)
    await judged(authentication_filter, token)
    assert len(api.asked) == 2 * asked


async def test_an_answer_is_for_one_verb_and_one_path(authentication_filter: AuthenticationFilter, api: Api) -> None:
    await judged(authentication_filter, "prometheus-token")
    await authentication_filter.judge("Bearer prometheus-token", "POST", "/metrics")
    await authentication_filter.judge("Bearer prometheus-token", "GET", "/debug")
    assert len(api.asked) == 6


async def test_ever_new_tokens_take_no_memory_without_bound(authentication_filter: AuthenticationFilter) -> None:
    for number in range(1500):
        await judged(authentication_filter, f"made-up-{number}")
    assert len(authentication_filter._answers) == 1000
    await asyncio.sleep(DENIED_FOR)
    await judged(authentication_filter, "prometheus-token")
    assert len(authentication_filter._answers) == 1
