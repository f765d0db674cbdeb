"""Why something failed: one class for each code of the protocol that programs tell apart."""

from __future__ import annotations

from typing import Dict, Optional, Type


class ZebuError(Exception):
    """What the client and the recipes raise.

    ``kind`` says what can be done about it: ``gone``, ``conflict``, ``denied``, ``read_only``, ``quota``,
    ``invalid``, ``not_executed``, ``unknown``, ``session_over``, ``server`` or ``recipe``. ``code`` is that of
    the protocol, ``path`` the znode that was asked for, and ``operation`` the place, from 0, of the write of a
    transaction that failed.
    """

    def __init__(
        self,
        message: str,
        code: int = 0,
        kind: str = "server",
        path: Optional[str] = None,
        operation: Optional[int] = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.kind = kind
        self.path = path
        self.operation = operation


class RecipeError(ZebuError):
    """A recipe cannot go on: another program deleted a znode of its, or uses the same path in another way."""


class SessionOverError(ZebuError):
    """The session is over, and with it its ephemerals, watches and locks. Only a new one helps."""


class SessionExpiredError(SessionOverError):
    """The servers have ended the session."""


class AuthFailedError(SessionOverError):
    """The servers refused the credentials."""


class ConnectionLoss(ZebuError):
    """No server could be asked, or no answer came. With the kind ``unknown`` the request may have been executed."""


class RequestTimeout(ConnectionLoss):
    """No answer came in time."""


class NoNodeError(ZebuError):
    """The znode, or the parent of one to create, is not there."""


class NodeExistsError(ZebuError):
    """The znode exists already."""


class BadVersionError(ZebuError):
    """The znode has another version."""


class NotEmptyError(ZebuError):
    """The znode has children."""


class NoChildrenForEphemeralsError(ZebuError):
    """An ephemeral znode can have no children."""


class NoAuthError(ZebuError):
    """The client lacks the permission."""


class InvalidACLError(ZebuError):
    """The ACL is empty, or not one of the ensemble's."""


class NotReadOnlyCallError(ZebuError):
    """The server is read-only for now."""


class QuotaExceededError(ZebuError):
    """A quota would be exceeded."""


class BadArgumentsError(ZebuError):
    """The arguments can never work."""


class UnimplementedError(ZebuError):
    """The server does not know this request."""


class NoWatcherError(ZebuError):
    """The watch was removed."""


_BY_CODE: Dict[int, Type[ZebuError]] = {
    -4: ConnectionLoss,
    -6: UnimplementedError,
    -7: ConnectionLoss,
    -8: BadArgumentsError,
    -101: NoNodeError,
    -102: NoAuthError,
    -103: BadVersionError,
    -108: NoChildrenForEphemeralsError,
    -110: NodeExistsError,
    -111: NotEmptyError,
    -112: SessionExpiredError,
    -114: InvalidACLError,
    -115: AuthFailedError,
    -119: NotReadOnlyCallError,
    -121: NoWatcherError,
    -122: RequestTimeout,
    -125: QuotaExceededError,
}


def _made(
    message: str, code: int, kind: str, path: Optional[str], operation: Optional[int]
) -> ZebuError:
    """Called by the native half, which knows no class."""
    by_kind = {"session_over": SessionOverError, "recipe": RecipeError}.get(kind, ZebuError)
    found = _BY_CODE.get(code, by_kind)
    if not issubclass(found, by_kind):
        found = by_kind
    return found(message, code, kind, path, operation)
