"""Answers on their way to the event loop: woken once for those that come together, in time, cancelled with who waits."""

import asyncio
from concurrent.futures import Future

import pytest

from dynograd.tools.web.handover import Handover


def test_answers_that_come_together_wake_the_loop_once(monkeypatch):
    async def main():
        loop, woken = asyncio.get_running_loop(), []
        threadsafe = loop.call_soon_threadsafe
        monkeypatch.setattr(loop, "call_soon_threadsafe", lambda function: woken.append(1) or threadsafe(function))
        handover, futures = Handover(loop), [Future() for _ in range(10)]
        waiting = [asyncio.ensure_future(handover.soon(future, 60.0)) for future in futures]
        await asyncio.sleep(0)
        for future in futures:  # while the loop does something else
            future.set_result(None)
        assert await asyncio.gather(*waiting) == [True] * 10
        return len(woken)

    assert asyncio.run(main()) == 1


def test_the_time_is_over_before_the_answer():
    async def main():
        return await Handover(asyncio.get_running_loop()).soon(Future(), 0.0)

    assert asyncio.run(main()) is False


def test_those_who_wait_equally_long_share_a_timer(monkeypatch):
    async def main():
        loop, timers = asyncio.get_running_loop(), []
        monkeypatch.setattr(loop, "time", lambda: 5.0)
        monkeypatch.setattr(loop, "call_at", lambda when, function, *values: timers.append((when, function, values)))
        handover = Handover(loop)
        waiting = [asyncio.ensure_future(handover.soon(Future(), seconds)) for seconds in (0.05, 0.05, 0.052, 0.2)]
        for _ in range(2):
            await asyncio.sleep(0)
        first, last = timers
        assert 5.052 <= first[0] <= 5.0621 and 5.2 <= last[0] <= 5.2101
        first[1](*first[2])
        assert await asyncio.gather(*waiting[:3]) == [False] * 3 and not waiting[3].done()
        last[1](*last[2])
        return await waiting[3]

    assert asyncio.run(main()) is False


def test_nobody_who_has_an_answer_is_kept_until_the_time_is_over():
    async def main():
        handover, future = Handover(asyncio.get_running_loop()), Future()
        waiting = asyncio.ensure_future(handover.soon(future, 60.0))
        await asyncio.sleep(0)
        kept = sum(map(len, handover._until.values()))
        future.set_result(3)
        await waiting
        return kept, sum(map(len, handover._until.values()))

    assert asyncio.run(main()) == (1, 0)


def test_an_answer_that_is_there_already():
    async def main():
        future = Future()
        future.set_result(3)
        return await Handover(asyncio.get_running_loop()).soon(future, 60.0)

    assert asyncio.run(main()) is True


def test_who_waits_no_longer_cancels_the_request():
    async def main():
        future = Future()
        waiting = asyncio.ensure_future(Handover(asyncio.get_running_loop()).soon(future, 60.0))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return future.cancelled()

    assert asyncio.run(main())
