"""Answers on their way from the models' threads to the event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Future
from functools import partial
from typing import Any

__all__ = ["Handover"]

_TICK = 0.01  # seconds; those who wait for the same hundredth share a timer


class Handover:
    """Wakes an event loop once for all the answers that come together, where `asyncio.wrap_future` wakes it for each.

    Args:
        loop: who waits for the answers.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._arrived: deque[asyncio.Future[bool]] = deque()
        self._is_woken = False
        self._until: dict[int, set[asyncio.Future[bool]]] = {}  # by the tick at which they wait no longer

    async def soon(self, future: Future[Any], seconds: float) -> bool:
        """Waits until the future is done, for so many seconds at most (or a hundredth more); whether it is. It is cancelled where the waiting is."""
        waiter: asyncio.Future[bool] = self.loop.create_future()
        waiters = self._waiters(int((self.loop.time() + seconds) / _TICK) + 1)
        waiters.add(waiter)
        future.add_done_callback(partial(self._arrive, waiter))
        try:
            return await waiter
        except asyncio.CancelledError:
            future.cancel()
            raise
        finally:
            waiters.discard(waiter)

    def _waiters(self, tick: int) -> set[asyncio.Future[bool]]:
        """Those who wait until then, and no longer."""
        waiters = self._until.get(tick)
        if waiters is None:
            waiters = self._until[tick] = set()
            self.loop.call_at(tick * _TICK, self._time_is_over, tick)
        return waiters

    def _time_is_over(self, tick: int) -> None:
        for waiter in self._until.pop(tick):
            _settle(waiter, False)

    def _arrive(self, waiter: asyncio.Future[bool], _: Future[Any]) -> None:
        """Runs on the thread of the answer."""
        self._arrived.append(waiter)
        if not self._is_woken and not self.loop.is_closed():
            self._is_woken = True
            self.loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._is_woken = False  # before it looks: what arrives from now on wakes the loop again
        while self._arrived:
            _settle(self._arrived.popleft(), True)


def _settle(waiter: asyncio.Future[bool], has_arrived: bool) -> None:
    if not waiter.done():
        waiter.set_result(has_arrived)
