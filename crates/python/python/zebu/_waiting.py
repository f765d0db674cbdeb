"""How methods that block wait for answers. `_awaiting` has the same names for methods of asyncio."""

from __future__ import annotations

from typing import Callable, Iterator, List, Optional, TypeVar

from . import _native

T = TypeVar("T")
U = TypeVar("U")
C = TypeVar("C", bound="Changed")


def come(call: _native.Call[T], timeout: Optional[float] = None) -> T:
    """The answer of a call. After a `TimeoutError` it can be waited for again."""
    return call.wait(timeout)


def answer(call: _native.Call[T], timeout: Optional[float] = None) -> T:
    """The answer of a call. A thread that stops waiting, because of time or a signal, takes back what it asked for."""
    try:
        return call.wait(timeout)
    except BaseException:
        call.cancel()
        raise


def made(call: _native.Call[T], make: Callable[[T], U], timeout: Optional[float] = None) -> U:
    """What is made from the answer of a call."""
    return make(answer(call, timeout))


def in_time(call: _native.Call[None], timeout: Optional[float]) -> bool:
    """Whether the answer of a call comes in time."""
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
