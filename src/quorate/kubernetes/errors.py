"""What an API server can answer, and what can come between.

ApiError                 any answer that is an error
  BadRequest             400
  Unauthorized           401: the credentials are not (or no longer) accepted
  Forbidden              403: the message names the verb and the resource
  NotFound               404
  MethodNotSupported     405
  Conflict               409, reason Conflict: changed since it was read
  AlreadyExists          409, reason AlreadyExists
  Gone                   410: the resourceVersion asked for is no longer kept
  Invalid                422
  TooManyRequests        429
  ServerError            500 and above
    Timeout              504, or a deadline of ours
ConnectionFailed         no answer at all
"""

from __future__ import annotations

from quorate.core.text import printable
from quorate.kubernetes.objects import Status


class ApiError(Exception):
    """An answer of the API that is an error. `code` is the HTTP status, `reason` the Status' reason ("" where there was none).

    The message quotes the server, and is made printable here, for everybody who tells it on.
    """

    def __init__(self, message: str, *, code: int = 0, reason: str = "", retry_after: float | None = None) -> None:
        super().__init__(printable(message))
        self.code = code
        self.reason = reason
        self.retry_after = retry_after  # seconds


class BadRequest(ApiError):
    """The request made no sense to the server."""


class Unauthorized(ApiError):
    """The credentials are not accepted."""


class Forbidden(ApiError):
    """The user may not do this."""


class NotFound(ApiError):
    """There is no such object, or no such kind."""


class MethodNotSupported(ApiError):
    """The kind does not know this verb."""


class Conflict(ApiError):
    """The object has changed since it was read, or a precondition does not hold."""


class AlreadyExists(ApiError):
    """There is an object of this name already."""


class Gone(ApiError):
    """The resourceVersion or continue token is too old: list again."""


class Invalid(ApiError):
    """The object breaks a rule of its schema or of an admission webhook."""


class TooManyRequests(ApiError):
    """The server asks to be asked later."""


class ServerError(ApiError):
    """The server failed."""


class Timeout(ServerError):
    """No answer within the deadline, the server's or ours."""


class ConnectionFailed(Exception):
    """No connection, or it broke before the answer was complete. What the other side said of it is made printable."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class TooMuch(ConnectionFailed):
    """The server has more than is read or kept of it. To ask again is in vain until it has less."""


_BY_REASON: dict[str, type[ApiError]] = {
    "BadRequest": BadRequest,
    "Unauthorized": Unauthorized,
    "Forbidden": Forbidden,
    "NotFound": NotFound,
    "MethodNotAllowed": MethodNotSupported,
    "Conflict": Conflict,
    "AlreadyExists": AlreadyExists,
    "Gone": Gone,
    "Expired": Gone,
    "Invalid": Invalid,
    "TooManyRequests": TooManyRequests,
    "Timeout": Timeout,
    "ServerTimeout": Timeout,
}
_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotSupported,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
    504: Timeout,
}


def from_status(status: Status, code: int, *, doing: str, retry_after: float | None = None) -> ApiError:
    """The error for an answer: by its reason, or by its HTTP code where the reason says nothing. `doing` is the verb and resource, such as `list secrets`."""
    kind = _BY_REASON.get(status.reason) or _BY_CODE.get(code) or (ServerError if code >= 500 else ApiError)
    seconds = retry_after if retry_after is not None else (status.details.retry_after_seconds or None if status.details else None)
    text = status.message or f"HTTP {code}"
    return kind(f"{doing}: {text}", code=code, reason=status.reason, retry_after=seconds)
