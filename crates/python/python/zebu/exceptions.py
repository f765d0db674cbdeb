"""Exceptions: one class for each error code of the protocol that programs handle differently."""

from __future__ import annotations

from typing import Dict, Optional, Type


class ZebuError(Exception):
    """The base class of all exceptions of the client and the recipes.

    ``kind`` groups errors by what a program can do about them: ``gone``, ``conflict``, ``denied``, ``read_only``,
    ``quota``, ``invalid``, ``not_executed``, ``unknown``, ``session_over``, ``server`` or ``recipe``. ``code`` is the
    error code of the protocol, and ``path`` the requested znode. ``operation`` is the index of the write that failed in
    a transaction, from 0.
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
    """A recipe cannot continue: another program deleted one of its znodes, or uses the path differently."""


class SessionOverError(ZebuError):
    """The session has ended, and with it its ephemerals, watches and locks. The program needs a new session."""


class SessionExpiredError(SessionOverError):
    """The servers have ended the session."""


class AuthFailedError(SessionOverError):
    """The servers refused the credentials."""


class ConnectionLoss(ZebuError):
    """No server was reachable, or no answer came. If ``kind`` is ``unknown``, the request may have been executed."""


class RequestTimeout(ConnectionLoss):
    """No answer came in time."""


class NoNodeError(ZebuError):
    """The znode does not exist, or the parent of a znode to create does not."""


class NodeExistsError(ZebuError):
    """The znode already exists."""


class BadVersionError(ZebuError):
    """The znode has another version."""


class NotEmptyError(ZebuError):
    """The znode has children."""


class NoChildrenForEphemeralsError(ZebuError):
    """An ephemeral znode cannot have children."""


class NoAuthError(ZebuError):
    """The client lacks permission."""


class InvalidACLError(ZebuError):
    """The ACL is empty, or the server does not accept it."""


class NotReadOnlyCallError(ZebuError):
    """The server is currently read-only."""


class QuotaExceededError(ZebuError):
    """A quota would be exceeded."""


class BadArgumentsError(ZebuError):
    """The arguments are invalid."""


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
    """Called by the native module, which does not know the classes."""
    by_kind = {"session_over": SessionOverError, "recipe": RecipeError}.get(kind, ZebuError)
    found = _BY_CODE.get(code, by_kind)
    if not issubclass(found, by_kind):
        found = by_kind
    return found(message, code, kind, path, operation)
