"""Rows that are answered in ragged batches."""

import asyncio
import concurrent.futures
import threading

import numpy
import pytest

import dynograd
from dynograd import nn
from dynograd.errors import DeadlineError, QueueFullError, ShapeError
from dynograd.serving import Batcher
from dynograd.tools.serving import batcher as batcher_module
from dynograd.transforms.autobatch import requests


class Gate:
    """A function of a batch that waits at its first call until the test lets it go on; `sizes` are those of its batches."""

    def __init__(self, function=lambda rows: rows.sum(1)):
        self.begun, self.go, self.sizes, self.function = threading.Event(), threading.Event(), [], function

    def __call__(self, rows):
        self.sizes.append(len(rows))
        self.begun.set()
        assert self.go.wait(60)
        return self.function(rows)

    def behind(self, batcher, rows):
        """The futures of rows that are submitted while a first batch of one row is computed."""
        first = batcher.submit([0.0])
        assert self.begun.wait(60)
        futures = [batcher.submit(row) for row in rows]
        self.go.set()
        first.result()
        return futures


ROWS = [[1.0] * length for length in (3, 1, 5, 2, 8, 4)]


@pytest.mark.parametrize(
    ("limits", "sizes"),
    [
        ({}, [1, 6]),
        ({"max_rows": 4}, [1, 4, 2]),
        ({"max_tokens": 9}, [1, 3, 1, 1]),  # 3 + 1 + 5, 2 (8 does not fit beside it) ...
        ({"max_rows": 1}, [1] * 7),
    ],
)
def test_batches_keep_their_limits(limits, sizes):
    gate = Gate()
    with Batcher(gate, **limits) as batcher:
        futures = gate.behind(batcher, ROWS)
        assert [future.result().item() for future in futures] == [float(len(row)) for row in ROWS]
    if "max_tokens" in limits:
        assert gate.sizes == [1, 3, 1, 1, 1]
    else:
        assert gate.sizes == sizes


def test_hundreds_of_rows_are_answered_as_alone_bit_for_bit():
    dynograd.manual_seed(2)
    rng = numpy.random.default_rng(3)
    table, recurrent, scores = nn.Embedding(50, 8), nn.GRU(8, 8, batch_first=True), nn.Linear(8, 3)

    def model(rows):
        return scores(recurrent(table(rows))[0].amax(1))

    data = [rng.integers(0, 50, rng.integers(1, 40)) for _ in range(300)]
    with dynograd.use_batch_invariant(True), dynograd.no_grad():
        expected = [model(dynograd.ragged_tensor([row]))[0].numpy() for row in data]
        with Batcher(model, max_tokens=300, queue=300) as batcher:
            futures = [batcher.submit(row) for row in data]
            cancelled = [k for k in range(0, 300, 7) if futures[k].cancel()]
            for k, future in enumerate(futures):
                if k in cancelled:
                    assert future.cancelled()
                else:
                    numpy.testing.assert_array_equal(future.result().numpy(), expected[k])
    assert batcher.batches < 150 and batcher.desk.counts["answered"] == 300 - len(cancelled)


def test_rows_that_come_soon_after_a_batch_go_together(monkeypatch):
    """The rest ends when a quarter of max_rows wait; nothing else would make two rows one batch here."""
    monkeypatch.setattr(batcher_module, "_REST", 1000.0)
    monkeypatch.setattr(requests.Desk, "collect", lambda *_: None)
    gate = Gate()
    gate.go.set()
    with Batcher(gate, max_rows=8, max_wait=1000.0) as batcher:
        assert batcher.submit([1.0]).result().item() == 1.0
        futures = [batcher.submit(row) for row in ([2.0], [3.0])]
        assert [future.result().item() for future in futures] == [2.0, 3.0]
    assert gate.sizes == [1, 2]


def test_a_bad_row_fails_alone():
    def model(rows):
        if any(rows.values() < 0):
            raise ValueError("a negative number")
        return rows.mean(1)

    gate = Gate(model)
    with Batcher(gate) as batcher:
        futures = gate.behind(batcher, [[1.0], [-1.0], [4.0, 2.0]])
        assert [futures[0].result().item(), futures[2].result().item()] == [1.0, 3.0]
        with pytest.raises(ValueError, match="a negative number"):
            futures[1].result()
    assert batcher.desk.counts | {"answered": 3, "failed": 1} == batcher.desk.counts


def test_ragged_answers_and_lists_are_taken_apart():
    with Batcher(lambda rows: rows * 2) as batcher:
        assert batcher.submit([1.0, 2.0]).result().tolist() == [2.0, 4.0]
    with Batcher(lambda rows: [f"{len(row)} words" for row in rows]) as batcher:
        assert batcher.submit([1.0, 2.0]).result() == "2 words"


@pytest.mark.parametrize("columns", [(), (2,)])
def test_answers_are_no_views_of_what_the_function_keeps(columns):
    kept = dynograd.zeros(64, *columns)

    def counted(rows):
        kept.add_(1)
        return kept[: rows.shape[0]]

    with Batcher(counted) as batcher:
        answers = [batcher.submit([1.0]).result() for _ in range(3)]
    assert [answer.tolist() for answer in answers] == [numpy.full(columns, n).tolist() for n in (1, 2, 3)]


def test_a_deadline_that_passes_while_waiting_or_computing(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(requests, "monotonic", lambda: now[0])

    def model(rows):
        now[0] += 10.0
        return rows.sum(1)

    with Batcher(model) as batcher:
        assert batcher.submit([1.0]).result().item() == 1.0
        with pytest.raises(DeadlineError, match="deadline of request 1"):
            batcher.submit([1.0], deadline=5.0).result()
        assert batcher.submit([1.0], deadline=50.0).result().item() == 1.0


def test_a_full_queue_refuses():
    gate = Gate()
    with Batcher(gate, queue=2, max_rows=1) as batcher:
        first = batcher.submit([1.0])
        assert gate.begun.wait(60)
        futures = [batcher.submit([2.0]) for _ in range(2)]
        with pytest.raises(QueueFullError, match="2 requests wait, as many as queue=2"):
            batcher.submit([3.0])
        gate.go.set()
        assert [future.result().item() for future in (first, *futures)] == [1.0, 2.0, 2.0]


def test_close_answers_what_was_accepted():
    gate = Gate()
    batcher = Batcher(gate, max_wait=1000.0)
    first = batcher.submit([1.0])
    gate.go.set()
    assert batcher.close() and first.result(timeout=0).item() == 1.0
    with pytest.raises(RuntimeError, match="closed"):
        batcher.submit([1.0])


def test_close_without_drain_cancels_what_waits():
    gate = Gate()
    batcher = Batcher(gate, max_rows=1)
    first = batcher.submit([1.0])
    assert gate.begun.wait(60)
    second = batcher.submit([1.0])
    batcher.close(drain=False, timeout=0.0)
    gate.go.set()
    assert batcher.close() and first.result().item() == 1.0
    with pytest.raises(concurrent.futures.CancelledError):
        second.result()


def test_an_answer_can_be_awaited():
    async def ask():
        return await asyncio.wrap_future(batcher.submit([1.0, 2.0]))

    with Batcher(lambda rows: rows.sum(1)) as batcher:
        assert asyncio.run(ask()).item() == 3.0


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: Batcher(3), TypeError, "Batcher: expected a function, got int"),
        (lambda: Batcher(len, max_rows=0), ValueError, "max_rows to be a positive whole number"),
        (lambda: Batcher(len, max_wait=-1.0), ValueError, "max_wait to be a positive number"),
        (lambda: Batcher(len).submit(3.0), ShapeError, "expected a row .* got a single number 3.0"),
        (
            lambda: Batcher(len, max_tokens=2).submit([1, 2, 3]),
            ShapeError,
            "3 tokens, but a batch at most max_tokens=2",
        ),
        (lambda: Batcher(lambda rows: rows.sum()).submit([1.0]).result(), ShapeError, "got 1 rows and returned Tensor"),
        (lambda: Batcher(lambda rows: [1, 2]).submit([1.0]).result(), ShapeError, "got 1 rows and returned 2 answers"),
    ],
)
def test_what_is_wrong_is_said(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize(("answer", "how"), [(lambda rows: rows.sum(1), "answered"), (lambda rows: 1 / 0, "failed")])
def test_who_has_an_answer_finds_it_among_the_counts(answer, how):
    seen = []
    with Batcher(answer) as batcher:
        future = batcher.submit(dynograd.ones(3))
        future.add_done_callback(lambda future: seen.append(dict(batcher.desk.counts)))
        future.exception(60)
    seen.append(dict(batcher.desk.counts))
    assert [{name: count for name, count in counts.items() if count} for counts in seen] == [{how: 1}] * 2
