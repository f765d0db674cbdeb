"""Waiting for answers in a thread."""

from __future__ import annotations

from typing import Callable, Generic, Iterator, Optional, Protocol, TypeVar

from . import _native

T = TypeVar("T")
U = TypeVar("U")
S = TypeVar("S", bound="Stream")  # type: ignore[type-arg]
Told = TypeVar("Told", covariant=True)


class Source(Protocol[Told]):
    """Tells one thing after the other."""

    def next(self) -> _native.Call[Told]: ...


class Stream(Generic[T, U]):
    """What a source tells, in order, until it is closed. It can be iterated over."""

    def __init__(self, source: Source[T], make: Callable[[T], U]) -> None:
        self._source: Optional[Source[T]] = source
        self._make = make
        self._call: Optional[_native.Call[T]] = None

    def next(self, timeout: Optional[float] = None) -> U:
        """The next one. Raises `TimeoutError` when none comes in so many seconds; nothing is lost by that."""
        if self._source is None:
            raise ValueError("it is closed")
        call = self._call = self._call or self._source.next()
        try:
            told = call.wait(timeout)
        except TimeoutError:
            raise
        except Exception:
            self._call = None
            if self._source is None:
                raise ValueError("it is closed") from None
            raise
        self._call = None
        return self._make(told)

    def __iter__(self) -> Iterator[U]:
        while self._source is not None:
            try:
                told = self.next()
            except ValueError:
                return
            yield told

    def close(self) -> None:
        """Ends it, and wakes a thread that waits for it."""
        call, self._call, self._source = self._call, None, None
        if call is not None:
            call.cancel()

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def waited(call: _native.Call[T], timeout: Optional[float] = None) -> T:
    """The answer of a call. Whoever stops waiting, because of time or a signal, takes back what was asked for."""
    try:
        return call.wait(timeout)
    except BaseException:
        call.cancel()
        raise


def in_time(call: _native.Call[None], timeout: Optional[float]) -> bool:
    try:
        call.wait(timeout)
    except TimeoutError:
        return False
    return True
