"""The data of a lease's znode, in the format of kazoo's ``NonBlockingLease``."""

from __future__ import annotations

import json
import socket
from datetime import datetime, timedelta, timezone
from typing import Optional

VERSION = 1
FORMAT = "%Y-%m-%dT%H:%M:%S"


def holder_name(identifier: Optional[str]) -> str:
    """The identifier of a holder; by default, its host."""
    return identifier or socket.gethostname()


def holder_path(path: str) -> str:
    """The znode that names the holder."""
    return f"{path}/lease_holder"


def now() -> datetime:
    """The time in UTC, without a time zone, as kazoo stores it."""
    return datetime.now(timezone.utc).replace(tzinfo=None)


def is_taken(raw: bytes, identifier: str) -> bool:
    """Whether another program has the lease."""
    data = json.loads(raw.decode())
    if data["version"] != VERSION:
        return True
    return bool(data["holder"] != identifier and now() < datetime.strptime(data["end"], FORMAT))


def entry(identifier: str, duration: timedelta) -> bytes:
    """The data of the holder's znode."""
    end = (now() + duration).strftime(FORMAT)
    return json.dumps({"version": VERSION, "holder": identifier, "end": end}).encode()
