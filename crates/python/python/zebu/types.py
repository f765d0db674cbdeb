"""Types that the blocking client and the asyncio client share."""

from __future__ import annotations

import base64
import hashlib
import os
import socket
from dataclasses import dataclass
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from ._native import Stat

__all__ = [
    "ACL",
    "Change",
    "Event",
    "Kerberos",
    "Perms",
    "Stat",
    "Ticket",
    "Tls",
    "Znode",
    "creator",
    "digest",
    "open_to_all",
    "user",
]


class Perms:
    """The permissions of an ACL entry. Combine them with ``|``."""

    READ = 1
    WRITE = 2
    CREATE = 4
    DELETE = 8
    ADMIN = 16
    ALL = 31


class ACL(NamedTuple):
    """An entry of an ACL."""

    perms: int
    scheme: str
    id: str


def creator() -> List[ACL]:
    """All permissions for the znode's creator. The client needs credentials: ``auth=`` or SASL."""
    return [ACL(Perms.ALL, "auth", "")]


def open_to_all() -> List[ACL]:
    """All permissions for every client that can reach the ensemble."""
    return [ACL(Perms.ALL, "world", "anyone")]


def user(name: str, password: str, perms: int = Perms.ALL) -> List[ACL]:
    """These permissions for a user of the scheme ``digest``."""
    return [ACL(perms, "digest", digest(name, password))]


def digest(name: str, password: str) -> str:
    """The id of a user in the scheme ``digest``."""
    hashed = hashlib.sha1(f"{name}:{password}".encode()).digest()
    return f"{name}:{base64.b64encode(hashed).decode()}"


class Event(NamedTuple):
    """An event of a watch.

    ``kind`` is ``created``, ``deleted``, ``data_changed``, ``children_changed`` or ``watch_removed``. A persistent
    watch also reports ``disconnected`` when it loses its connection, and ``missed`` when it has a connection again but
    events may be missing: the program should then read the znodes again. ``zxid`` is that of the change, if the server
    sends it.
    """

    kind: str
    path: str
    zxid: Optional[int]


class Znode(NamedTuple):
    """A znode of a cache."""

    path: str
    data: bytes
    stat: Stat


class Change(NamedTuple):
    """A change of a cache.

    ``kind`` is ``created``, ``data_changed`` or ``deleted``, with the znode after the change, or before its deletion.
    ``current`` means that the cache is complete, and ``suspended`` that the connection is lost. ``reset`` means that
    this reader was too slow: it must discard its copy, because the whole content is sent again.
    """

    kind: str
    znode: Optional[Znode]


class Ticket(NamedTuple):
    """A ticket with which another client can continue a session. Keep it secret."""

    session_id: int
    password: bytes

    def __repr__(self) -> str:
        return f"Ticket(session_id={self.session_id:#x})"


@dataclass(frozen=True)
class Tls:
    """TLS settings: stores in PEM, PKCS12 or JKS, and whether a certificate must match the host name."""

    trust_store: Optional[str] = None
    trust_store_password: Optional[str] = None
    key_store: Optional[str] = None
    key_store_password: Optional[str] = None
    system_roots: bool = False
    hostname_verification: bool = True

    def __repr__(self) -> str:
        return f"Tls(trust_store={self.trust_store!r}, key_store={self.key_store!r})"


@dataclass(frozen=True)
class Kerberos:
    """SASL with Kerberos: a principal and its key table. Without both, the user's ticket cache is used."""

    principal: Optional[str] = None
    key_tab: Optional[str] = None


#: SASL credentials: a name with a password, or Kerberos.
Sasl = Union[Tuple[str, str], Kerberos]


class _SaslSettings(NamedTuple):
    user: Optional[str]
    password: Optional[str]
    key_tab: Optional[str]


def _settings(
    *,
    timeout: Optional[float],
    connection_wait: Optional[float],
    request_timeout: Optional[float],
    give_up_after: Optional[float],
    read_only: bool,
    create_chroot: Optional[Sequence[ACL]],
    auth: Sequence[Tuple[str, Union[str, bytes]]],
    ticket: Optional[Ticket],
    tls: Optional[Tls],
    sasl: Optional[Sasl],
) -> Dict[str, Any]:
    """The settings of a session, for the native module."""
    if isinstance(sasl, Kerberos):
        who: Optional[_SaslSettings] = _SaslSettings(sasl.principal, None, sasl.key_tab)
    elif sasl is not None:
        who = _SaslSettings(sasl[0], sasl[1], None)
    else:
        who = None
    return {
        "timeout": timeout,
        "connection_wait": connection_wait,
        "request_timeout": request_timeout,
        "give_up_after": give_up_after,
        "read_only": read_only,
        "chroot_acl": None if create_chroot is None else list(create_chroot),
        "auth": [(scheme, secret.encode() if isinstance(secret, str) else secret) for scheme, secret in auth],
        "ticket": ticket,
        "tls": tls,
        "sasl": who,
    }


def _mode(ephemeral: bool, sequence: bool, container: bool, ttl: Optional[float]) -> Dict[str, Any]:
    return {"ephemeral": ephemeral, "sequence": sequence, "container": container, "ttl": ttl}


def _entries(acl: Optional[Sequence[ACL]], default: Optional[Sequence[ACL]]) -> List[ACL]:
    found = default if acl is None else acl
    if found is None:
        raise ValueError("no ACL is given: acl=, or default_acl= of the client")
    return list(found)


def _op(kind: str, path: str, data: bytes = b"", version: int = -1, **create: Any) -> Dict[str, Any]:
    return {
        "kind": kind,
        "path": path,
        "data": data,
        "version": version,
        "mode": create.get("mode"),
        "acl": create.get("acl", []),
    }


def _identifier(given: Optional[str]) -> str:
    """The identifier of a program; by default, its host and process id."""
    return f"{socket.gethostname()}-{os.getpid()}" if given is None else given


def _change(told: Tuple[str, Optional[Tuple[str, bytes, Stat]]]) -> Change:
    kind, znode = told
    return Change(kind, None if znode is None else Znode(*znode))
