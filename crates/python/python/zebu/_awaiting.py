"""Waits for answers with asyncio. `_waiting` has the same functions for blocking methods."""

from __future__ import annotations

import asyncio
from typing import Callable, Optional, TypeVar

from . import _native

T = TypeVar("T")
U = TypeVar("U")


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


async def come(call: _native.Call[T], timeout: Optional[float] = None) -> T:
    """The answer of a call. After a `TimeoutError` or a cancellation, a task can wait for it again."""
    if not call.is_done():
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()

        def tell() -> None:
            # A closed loop has no task to wake.
            if not loop.is_closed():
                loop.call_soon_threadsafe(_wake, woken)

        call.on_done(tell)
        try:
            await asyncio.wait_for(woken, timeout)
        except asyncio.TimeoutError:
            # Before Python 3.11, asyncio.TimeoutError is a separate class.
            raise TimeoutError("no answer in time") from None
    return call.take()


async def answer(call: _native.Call[T], timeout: Optional[float] = None) -> T:
    """The answer of a call. The call is withdrawn if the task stops waiting."""
    try:
        return await come(call, timeout)
    except BaseException:
        call.cancel()
        raise


async def made(call: _native.Call[T], make: Callable[[T], U], timeout: Optional[float] = None) -> U:
    """The answer of a call, converted by ``make``."""
    return make(await answer(call, timeout))


async def in_time(call: _native.Call[None], timeout: Optional[float]) -> bool:
    """Whether a call is answered before the timeout."""
    try:
        await come(call, timeout)
    except TimeoutError:
        return False
    return True


class Changed:
    """The asyncio counter has no operators."""


class Listed:
    """The asyncio party has no operators."""
