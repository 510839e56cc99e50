"""Running pools: examples that come while others are under way, with greenlets and with threads."""

import asyncio
import concurrent.futures
import gc
import subprocess
import sys
import threading
import traceback

import numpy
import pytest

import dynograd
from dynograd import nn
from dynograd.errors import DeadlineError, QueueFullError
from dynograd.transforms.autobatch import carriers, requests
from dynograd.transforms.autobatch.group import executing


@pytest.fixture(params=["greenlets", "threads"], autouse=True)
def carrier(request, monkeypatch):
    if request.param == "threads":
        monkeypatch.setattr(carriers, "greenlet", None)
    elif carriers.greenlet is None:
        pytest.skip("greenlet is not installed (extra greenlet)")


def halvings(x):
    count = 0
    while x > 1:
        x, count = x / 2, count + 1
    return count


def counting(x):
    for _ in range(5):
        x = x + 1
        yield x.item()
    return x * 10


class Gate:
    """A program that stops in the middle until the test lets it go on; `begun` is set when it is there."""

    def __init__(self):
        self.begun, self.go = threading.Event(), threading.Event()

    def __call__(self, x):
        if x is self:
            self.begun.set()
            assert self.go.wait(60)
            return "through"
        return halvings(x)


def test_answers_are_those_of_the_function():
    with dynograd.batched(halvings, running=True) as pool:
        futures = {k: pool.submit(dynograd.tensor(float(k))) for k in range(1, 60)}
        assert {k: future.result() for k, future in futures.items()} == {
            k: int(numpy.ceil(numpy.log2(k))) for k in range(1, 60)
        }
    assert "59 answered" in repr(pool)


def test_examples_that_come_together_share_groups():
    gate = Gate()
    with dynograd.batched(gate, running=True) as pool:
        first = pool.submit(gate)
        assert gate.begun.wait(60)
        futures = [pool.submit(dynograd.tensor(1000.0)) for _ in range(50)]
        gate.go.set()
        assert first.result() == "through" and {future.result() for future in futures} == {10}
        assert pool.calls >= 50 * 20 and pool.groups <= 2 * 12  # one by one it would be as many groups as calls


def test_a_new_example_joins_those_under_way():
    order, joined = [], threading.Event()

    def program(example):
        x, turns = dynograd.tensor(1.0), 0
        while (x * 2).item() > 0:
            turns += 1
            if example == "long" and turns == 3:
                other.append(pool.submit("short"))
            if (example == "short" and turns == 3) or (example == "long" and joined.is_set()):
                break
        order.append(example)
        joined.set()
        return turns

    other: list = []
    with dynograd.batched(program, running=True) as pool:
        assert 3 < pool.submit("long").result(timeout=60) < 10
        assert other[0].result() == 3 and order == ["short", "long"]


class Decoder(nn.Module):
    """Decodes greedily until its own end; the state is part of the answer, so that its bits are compared."""

    def __init__(self):
        super().__init__()
        self.table, self.cell, self.scores = nn.Embedding(30, 12), nn.GRUCell(12, 12), nn.Linear(12, 30)

    def forward(self, example):
        word, most = example
        state, words = dynograd.zeros(12), []
        while len(words) < most:
            state = self.cell(self.table(dynograd.tensor(word)), state)
            word = int(self.scores(state).argmax())
            words.append(word)
            if word == 13 and len(words) > 2:
                raise ValueError(f"word 13 after {len(words)}")
        return words, state, dynograd.rand(2)


def outcome(call):
    try:
        words, state, drawn = call()
        return words, state.numpy().tobytes(), drawn.numpy().tobytes()
    except ValueError as error:
        return str(error)


def test_hundreds_of_random_requests_are_answered_as_alone_bit_for_bit():
    dynograd.manual_seed(1)
    model, rng = Decoder(), numpy.random.default_rng(5)
    examples = [(int(rng.integers(30)), int(rng.integers(1, 25))) for _ in range(300)]
    with dynograd.use_batch_invariant(True):
        alone = dynograd.batched(model, running=True)
        expected = [outcome(alone.submit(example, seed=k).result) for k, example in enumerate(examples)]
        with dynograd.no_grad():
            eager = [outcome(lambda example=example: model(example)) for example in examples]
        with dynograd.batched(model, running=True, concurrent=40, queue=1000) as pool:
            futures = [pool.submit(example, seed=k) for k, example in enumerate(examples)]
            cancelled = {k for k in rng.choice(300, 60, replace=False).tolist() if futures[k].cancel()}
            for k, future in enumerate(futures):
                if k in cancelled:
                    with pytest.raises(concurrent.futures.CancelledError):
                        future.result()
                else:
                    assert outcome(future.result) == expected[k], k
        alone.close()
    same = [a == b or a[:2] == b[:2] for a, b in zip(expected, eager)]  # the plain loop draws other random numbers
    assert all(same) and any(isinstance(element, str) for element in expected)
    assert sum(pool.desk.counts.values()) == 300 and pool.desk.counts["cancelled"] >= len(cancelled)


def test_an_error_is_its_own_with_the_line_that_raised_it():
    def program(x):
        y = x * 2
        if y > 5:
            raise LookupError("too large")  # this line
        return y.item()

    with dynograd.batched(program, running=True) as pool:
        futures = [pool.submit(dynograd.tensor(float(k))) for k in range(5)]
        assert [future.result() for future in futures[:3]] == [0.0, 2.0, 4.0]
        for future in futures[3:]:
            assert "this line" in "".join(traceback.format_exception(future.exception()))


def test_an_op_that_fails_is_the_error_of_its_example():
    def program(x):
        return dynograd.linalg.inv(x)

    with dynograd.batched(program, running=True) as pool:
        futures = [pool.submit(dynograd.eye(2) * k) for k in (1.0, 0.0, 2.0)]
        assert isinstance(futures[1].exception(), dynograd.errors.LinAlgError)
        assert futures[2].result().tolist() == [[0.5, 0.0], [0.0, 0.5]]


def test_a_turn_that_fails_is_the_error_of_all_under_way_and_later_ones_are_answered(monkeypatch):
    plain, groups = executing.attempted, []

    def attempted(run):
        groups.append(run)
        if len(groups) == 1:
            raise MemoryError("no room for a group")
        return plain(run)

    monkeypatch.setattr(executing, "attempted", attempted)
    with dynograd.batched(halvings, running=True) as pool:
        with pool.desk.condition:  # its thread sees both at once
            futures = [pool.submit(dynograd.tensor(x)) for x in (8.0, 2.0)]
        for future in futures:
            with pytest.raises(MemoryError, match="no room"):
                future.result(60)
        assert [future.result(60) for future in [pool.submit(dynograd.tensor(8.0)) for _ in range(2)]] == [3, 3]
    assert pool.desk.counts["failed"] > 0 and pool.desk.under_way == 0  # noted behind the last answer


def test_a_program_that_exits_ends_itself_alone():
    with dynograd.batched(lambda x: sys.exit(3) if x > 1 else x.item(), running=True) as pool:
        futures = [pool.submit(dynograd.tensor(float(k))) for k in (2, 1)]
        with pytest.raises(dynograd.errors.DynogradError, match="ended the program .SystemExit. in request 0"):
            futures[0].result()
        assert futures[1].result() == 1.0


def test_a_cancelled_example_stops_at_its_next_decision_and_its_finally_runs():
    stopped, started = threading.Event(), threading.Event()

    def endless(x):
        try:
            while (x + 1).item() > 0:
                started.set()
        finally:
            stopped.set()

    with dynograd.batched(endless, running=True) as pool:
        future = pool.submit(dynograd.tensor(1.0))
        assert started.wait(60) and future.cancel()
        assert stopped.wait(60)
    assert pool.desk.counts["cancelled"] == 1


def test_a_deadline_stops_an_example_and_the_others_go_on(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(requests, "monotonic", lambda: now[0])

    def program(x):
        while (x + 1).item() > 0:
            now[0] += 1.0
            if x > 5:
                return "answered"

    with dynograd.batched(program, running=True) as pool:
        late = pool.submit(dynograd.tensor(1.0), deadline=30.0)
        with pytest.raises(DeadlineError, match="deadline of request 0 passed"):
            late.result(timeout=60)
        assert pool.submit(dynograd.tensor(9.0), deadline=30.0).result(timeout=60) == "answered"
        assert issubclass(DeadlineError, TimeoutError) and pool.desk.counts["late"] == 1


def test_a_full_queue_refuses_and_cancelled_ones_make_room():
    gate = Gate()
    with dynograd.batched(gate, running=True, concurrent=1, queue=2) as pool:
        pool.submit(gate)
        assert gate.begun.wait(60)
        waiting = [pool.submit(dynograd.tensor(2.0)) for _ in range(2)]
        with pytest.raises(QueueFullError, match="2 requests wait, as many as queue=2"):
            pool.submit(dynograd.tensor(2.0))
        waiting[0].cancel()
        third = pool.submit(dynograd.tensor(4.0))
        gate.go.set()
        assert waiting[1].result() == 1 and third.result() == 2


def test_map_is_in_order_and_submits_no_more_than_the_queue_lets():
    with dynograd.batched(halvings, running=True, queue=3) as pool:
        assert list(pool.map(dynograd.tensor(2.0**k) for k in range(20))) == list(range(20))
        assert pool.desk.counts["refused"] == 0


def test_close_answers_what_was_accepted_and_takes_nothing_new():
    pool = dynograd.batched(halvings, running=True)
    futures = [pool.submit(dynograd.tensor(8.0)) for _ in range(20)]
    assert pool.close() and [future.result(timeout=0) for future in futures] == [3] * 20
    with pytest.raises(RuntimeError, match="closed, and takes no new requests"):
        pool.submit(dynograd.tensor(1.0))


def test_close_without_drain_cancels():
    gate = Gate()
    pool = dynograd.batched(gate, running=True, concurrent=1)
    first = pool.submit(gate)
    assert gate.begun.wait(60)
    second = pool.submit(dynograd.tensor(8.0))
    assert not pool.close(drain=False, timeout=0.0)
    gate.go.set()
    assert pool.close(drain=False) and second.cancelled() and first.done()


def test_a_stream_hands_on_values_and_the_return_value():
    with dynograd.batched(counting, running=True) as pool:
        streams = [pool.stream(dynograd.tensor(float(k))) for k in range(4)]
        for k, stream in enumerate(streams):
            assert list(stream) == [k + 1.0, k + 2.0, k + 3.0, k + 4.0, k + 5.0]
            assert stream.future.result().item() == 10.0 * (k + 5)
        assert pool.submit(dynograd.tensor(0.0)).result().item() == 50.0


def test_a_stream_and_a_future_can_be_awaited():
    async def read():
        return [value async for value in pool.stream(dynograd.tensor(0.0))], await asyncio.wrap_future(
            pool.submit(dynograd.tensor(1.0))
        )

    with dynograd.batched(counting, running=True) as pool:
        values, last = asyncio.run(read())
        assert values == [1.0, 2.0, 3.0, 4.0, 5.0] and last.item() == 60.0


def test_a_stream_waits_for_its_reader_and_its_error_comes_behind_its_values():
    created = []

    def program(x):
        for k in range(200):
            created.append(k)
            yield x + k
        raise LookupError("after the last")

    with dynograd.batched(program, running=True) as pool:
        stream = pool.stream(dynograd.tensor(1.0))
        read = [next(stream).item()]
        assert len(created) <= requests._AHEAD + 2  # it cannot be further ahead, whenever this line runs
        with pytest.raises(LookupError, match="after the last"):
            for value in stream:
                read.append(value.item())
        assert read == [1.0 + k for k in range(200)]


def test_a_stream_that_is_left_stops_its_program():
    ended = threading.Event()

    def program(x):
        try:
            while True:
                yield x.item()
        finally:
            ended.set()

    with dynograd.batched(program, running=True) as pool:
        with pool.stream(dynograd.tensor(1.0)) as stream:
            assert next(stream) == 1.0
        assert ended.wait(60)
        with pytest.raises(concurrent.futures.CancelledError):
            list(stream)


def test_memory_stays_flat_while_the_pool_is_never_idle():
    def program(x):
        return (x * 2 + x.item()).tanh()

    def objects_after(count):
        nonlocal last
        for _ in range(count):
            previous, last = last, pool.submit(dynograd.tensor([1.0, 2.0]))
            previous.result()
        gc.collect()
        return len(gc.get_objects())

    with dynograd.batched(lambda x: program(x.sum()), running=True) as pool:
        last = pool.submit(dynograd.tensor([1.0, 2.0]))
        before = objects_after(100)
        assert objects_after(400) < before + 400


def test_answers_have_memory_of_their_own_and_no_history():
    weight = dynograd.ones(3, requires_grad=True)
    with dynograd.batched(lambda x: {"y": x * weight}, running=True) as pool:
        answers = [future.result() for future in [pool.submit(dynograd.ones(3) * k) for k in range(8)]]
    assert all(answer["y"].array.base is None and not answer["y"].requires_grad for answer in answers)


def test_modes_are_those_of_the_place_where_the_pool_was_made():
    with dynograd.use_batch_invariant(True):
        pool = dynograd.batched(lambda x: (dynograd.is_batch_invariant(), dynograd.is_grad_enabled()), running=True)
    with pool:
        assert pool.submit(1).result() == (True, False)


def test_random_numbers_of_the_process_are_left_alone():
    dynograd.manual_seed(4)
    expected = dynograd.rand(3).tolist()
    with dynograd.batched(lambda x: dynograd.rand(2).tolist(), running=True) as pool:
        dynograd.manual_seed(4)
        drawn = [pool.submit(1, seed=3).result(), pool.submit(2, seed=3).result(), pool.submit(1).result()]
    assert dynograd.rand(3).tolist() == expected
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_process_answers_what_it_has_accepted_before_it_ends():
    code = (
        "import dynograd\n"
        "pool = dynograd.batched(lambda x: (x * 2).item(), running=True)\n"
        "pool.submit(dynograd.tensor(4.0)).add_done_callback(lambda future: print(future.result()))\n"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120).stdout == "8.0\n"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: dynograd.batched(halvings, running=True, queue=0), "queue to be a positive whole number"),
        (lambda: dynograd.batched(halvings, running=True, concurrent=0), "concurrent to be a positive number"),
        (lambda: dynograd.batched(halvings, running=True, errors="return"), "each future has its own error"),
        (lambda: dynograd.batched(halvings, queue=3), "queue is of pools"),
        (lambda: dynograd.batched(halvings, running=True).submit(1, deadline=-1), "deadline to be a positive number"),
    ],
)
def test_wrong_options_say_what_is_wrong(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_a_function_that_does_not_yield_has_no_stream():
    with pytest.raises(TypeError, match="wants a function that yields, and halvings does not"):
        dynograd.batched(halvings, running=True).stream(1)


def test_leaving_the_block_ends_the_pool():
    with dynograd.batched(halvings, running=True) as pool:
        future = pool.submit(dynograd.tensor(8.0))
    assert future.result(timeout=0) == 3
    with pytest.raises(RuntimeError, match="closed, and takes no new requests"):
        pool.submit(dynograd.tensor(8.0))
    gate = Gate()
    with pytest.raises(KeyError), dynograd.batched(gate, running=True, concurrent=1) as pool:
        first = pool.submit(gate)
        assert gate.begun.wait(60)
        second = pool.submit(dynograd.tensor(8.0))
        second.add_done_callback(lambda _: gate.go.set())
        raise KeyError
    assert second.cancelled() and first.done()


@pytest.mark.parametrize(
    "waiting, most, size, enough", [(1, 2, 9, False), (2, 2, 9, True), (2, 3, 9, False), (2, 3, 2, True)]
)
def test_a_desk_sleeps_until_enough_requests_wait(waiting, most, size, enough, monkeypatch):
    desk, looked = requests.Desk("desk", lambda: None, 10), []
    for number in range(waiting):
        desk.waiting.append(requests.Request(number, None))
        desk.size += 1
    monkeypatch.setattr(desk.condition, "wait_for", lambda is_so, left: looked.append((is_so(), left > 0)))
    desk.collect(most, size, 60.0)
    assert looked == [(enough, True)]
    assert desk._is_enough()  # from then on for one request
