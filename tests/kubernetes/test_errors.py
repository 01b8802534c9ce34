"""Which error an answer becomes, and what it says."""

from __future__ import annotations

import pytest

from quorate.kubernetes import errors
from quorate.kubernetes.errors import ApiError, from_status
from quorate.kubernetes.objects import Status, StatusDetails


@pytest.mark.parametrize(
    ("reason", "code", "kind"),
    [
        ("BadRequest", 400, errors.BadRequest),
        ("Unauthorized", 401, errors.Unauthorized),
        ("Forbidden", 403, errors.Forbidden),
        ("NotFound", 404, errors.NotFound),
        ("MethodNotAllowed", 405, errors.MethodNotSupported),
        ("Conflict", 409, errors.Conflict),
        ("AlreadyExists", 409, errors.AlreadyExists),
        ("Gone", 410, errors.Gone),
        ("Expired", 410, errors.Gone),
        ("Invalid", 422, errors.Invalid),
        ("TooManyRequests", 429, errors.TooManyRequests),
        ("InternalError", 500, errors.ServerError),
        ("ServerTimeout", 500, errors.Timeout),
        ("ServiceUnavailable", 503, errors.ServerError),
        ("Timeout", 504, errors.Timeout),
    ],
)
def test_the_reason_decides(reason: str, code: int, kind: type[ApiError]) -> None:
    error = from_status(Status(reason=reason, message="why"), code, doing="get secrets")
    assert type(error) is kind
    assert (error.code, error.reason) == (code, reason)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, errors.BadRequest),
        (401, errors.Unauthorized),
        (403, errors.Forbidden),
        (404, errors.NotFound),
        (405, errors.MethodNotSupported),
        (409, errors.Conflict),
        (410, errors.Gone),
        (418, errors.ApiError),
        (422, errors.Invalid),
        (429, errors.TooManyRequests),
        (500, errors.ServerError),
        (502, errors.ServerError),
        (504, errors.Timeout),
    ],
)
@pytest.mark.parametrize("reason", ["", "SomethingNew"])
def test_where_the_reason_says_nothing_the_code_decides(code: int, kind: type[ApiError], reason: str) -> None:
    assert type(from_status(Status(reason=reason), code, doing="get secrets")) is kind


def test_the_message_begins_with_what_was_being_done() -> None:
    assert str(from_status(Status(message="no such thing"), 404, doing="get secrets a/b")) == "get secrets a/b: no such thing"


def test_an_answer_without_a_message_says_its_code() -> None:
    assert str(from_status(Status(), 403, doing="list secrets")) == "list secrets: HTTP 403"


def test_the_header_s_retry_after_is_before_the_details() -> None:
    status = Status(details=StatusDetails(retry_after_seconds=9))
    assert from_status(status, 429, doing="get nodes", retry_after=2.0).retry_after == 2.0
    assert from_status(status, 429, doing="get nodes").retry_after == 9
    assert from_status(Status(), 429, doing="get nodes").retry_after is None
