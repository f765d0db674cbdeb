"""The client with blocking methods."""

from __future__ import annotations

from typing import Optional, Sequence, Tuple, Union

from . import _native
from ._client import BaseClient, PersistentWatch, Transaction, Watch
from ._waiting import answer
from .types import ACL, Sasl, Ticket, Tls, _settings

__all__ = ["Client", "PersistentWatch", "Transaction", "Watch"]


class Client(BaseClient):
    """A session with an ensemble. Threads may share it. The constructor opens it, and `close` or ``with`` closes it.

    ``hosts`` is a connect string: ``zoo1:2181,zoo2:2181/app``. Times are in seconds. An ended session is never replaced
    automatically: every method raises `exceptions.SessionOverError`, and the program must open a new session.
    """

    def __init__(
        self,
        hosts: str = "127.0.0.1:2181",
        timeout: Optional[float] = None,
        *,
        default_acl: Optional[Sequence[ACL]] = None,
        auth: Sequence[Tuple[str, Union[str, bytes]]] = (),
        connection_wait: Optional[float] = None,
        request_timeout: Optional[float] = None,
        give_up_after: Optional[float] = None,
        read_only: bool = False,
        create_chroot: Optional[Sequence[ACL]] = None,
        ticket: Optional[Ticket] = None,
        tls: Optional[Tls] = None,
        sasl: Optional[Sasl] = None,
    ) -> None:
        settings = _settings(
            timeout=timeout,
            connection_wait=connection_wait,
            request_timeout=request_timeout,
            give_up_after=give_up_after,
            read_only=read_only,
            create_chroot=create_chroot,
            auth=auth,
            ticket=ticket,
            tls=tls,
            sasl=sasl,
        )
        self.default_acl = default_acl
        self._session = answer(_native.connect(hosts, settings))
