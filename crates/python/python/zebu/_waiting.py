"""Waits for answers in blocking methods. `_awaiting` has the same functions for asyncio."""

from __future__ import annotations

from typing import Callable, Iterator, List, Optional, TypeVar

from . import _native

T = TypeVar("T")
U = TypeVar("U")
C = TypeVar("C", bound="Changed")


def come(call: _native.Call[T], timeout: Optional[float] = None) -> T:
    """The answer of a call. After a `TimeoutError`, a thread can wait for it again."""
    return call.wait(timeout)


def answer(call: _native.Call[T], timeout: Optional[float] = None) -> T:
    """The answer of a call. The call is withdrawn if the thread stops waiting, because of a timeout or a signal."""
    try:
        return call.wait(timeout)
    except BaseException:
        call.cancel()
        raise


def made(call: _native.Call[T], make: Callable[[T], U], timeout: Optional[float] = None) -> U:
    """The answer of a call, converted by ``make``."""
    return make(answer(call, timeout))


def in_time(call: _native.Call[None], timeout: Optional[float]) -> bool:
    """Whether a call is answered before the timeout."""
    try:
        call.wait(timeout)
    except TimeoutError:
        return False
    return True


class Changed:
    """A counter has the operators ``+=`` and ``-=``."""

    def add(self, change: int) -> int:
        raise NotImplementedError

    def __iadd__(self: C, change: int) -> C:
        self.add(change)
        return self

    def __isub__(self: C, change: int) -> C:
        self.add(-change)
        return self


class Listed:
    """A party can be iterated over, and has a length."""

    def members(self) -> List[str]:
        raise NotImplementedError

    def __iter__(self) -> Iterator[str]:
        return iter(self.members())

    def __len__(self) -> int:
        return len(self.members())
