"""A pytest plug-in: mends a race of kazoo that its tests meet with a fast server.

`KazooClient.start` waits until the client is connected, and then looks whether it still is. If the
server refuses the credentials in between, the client is not connected any more, and `start` reports
a time-out, although no time has passed. With this plug-in it reports the refusal, as it does when
the caller is faster than the server.
"""

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError
from kazoo.protocol.states import KeeperState

_session_callback = KazooClient._session_callback
_start = KazooClient.start


def _remember(self, state):
    if state == KeeperState.AUTH_FAILED:
        self.is_refused = True
    return _session_callback(self, state)


def _start_or_refuse(self, timeout=15):
    try:
        return _start(self, timeout)
    except self.handler.timeout_exception as error:
        if getattr(self, "is_refused", False):
            raise AuthFailedError() from error
        raise


KazooClient._session_callback = _remember
KazooClient.start = _start_or_refuse
