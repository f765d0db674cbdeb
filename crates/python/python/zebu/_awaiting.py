"""How methods for asyncio wait for answers. `_waiting` has the same names for methods that block."""

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
    """The answer of a call. After a `TimeoutError` or a cancellation it can be awaited again."""
    if not call.is_done():
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()

        def tell() -> None:
            # A loop that is closed has nobody to be told.
            if not loop.is_closed():
                loop.call_soon_threadsafe(_wake, woken)

        call.on_done(tell)
        try:
            await asyncio.wait_for(woken, timeout)
        except asyncio.TimeoutError:
            # Before Python 3.11 this is a class of its own.
            raise TimeoutError("no answer in time") from None
    return call.take()


async def answer(call: _native.Call[T], timeout: Optional[float] = None) -> T:
    """The answer of a call. A task that stops waiting takes back what it asked for."""
    try:
        return await come(call, timeout)
    except BaseException:
        call.cancel()
        raise


async def made(call: _native.Call[T], make: Callable[[T], U], timeout: Optional[float] = None) -> U:
    """What is made from the answer of a call."""
    return make(await answer(call, timeout))


async def in_time(call: _native.Call[None], timeout: Optional[float]) -> bool:
    """Whether the answer of a call comes in time."""
    try:
        await come(call, timeout)
    except TimeoutError:
        return False
    return True


class Changed:
    """What a counter for asyncio has no operators for."""


class Listed:
    """What a party for asyncio has no operators for."""
