"""Awaiting answers in an event loop."""

from __future__ import annotations

import asyncio
from typing import AsyncIterator, Callable, Generic, Optional, TypeVar

from . import _native
from ._waiting import Source

T = TypeVar("T")
U = TypeVar("U")
S = TypeVar("S", bound="Stream")  # type: ignore[type-arg]


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


async def come(call: _native.Call[T]) -> T:
    """The answer of a call. After a cancellation it can be awaited again."""
    if not call.is_done():
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()

        def tell() -> None:
            # A loop that is closed has nobody to be told.
            if not loop.is_closed():
                loop.call_soon_threadsafe(_wake, woken)

        call.on_done(tell)
        await woken
    return call.take()


async def answer(call: _native.Call[T]) -> T:
    """The answer of a call. A cancellation takes back what was asked for."""
    try:
        return await come(call)
    except asyncio.CancelledError:
        call.cancel()
        raise


async def made(call: _native.Call[T], make: Callable[[T], U]) -> U:
    return make(await answer(call))


class Stream(Generic[T, U]):
    """What a source tells, in order, until it is closed. It can be iterated over."""

    def __init__(self, source: Source[T], make: Callable[[T], U]) -> None:
        self._source: Optional[Source[T]] = source
        self._make = make
        self._call: Optional[_native.Call[T]] = None

    async def next(self) -> U:
        """The next one. Cancelled, as by `asyncio.wait_for`, it loses none."""
        if self._source is None:
            raise ValueError("it is closed")
        call = self._call = self._call or self._source.next()
        try:
            told = await come(call)
        except Exception:
            self._call = None
            if self._source is None:
                raise ValueError("it is closed") from None
            raise
        self._call = None
        return self._make(told)

    async def __aiter__(self) -> AsyncIterator[U]:
        while self._source is not None:
            try:
                told = await self.next()
            except ValueError:
                return
            yield told

    def close(self) -> None:
        """Ends it, and wakes a task that waits for it."""
        call, self._call, self._source = self._call, None, None
        if call is not None:
            call.cancel()

    async def __aenter__(self: S) -> S:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.close()
