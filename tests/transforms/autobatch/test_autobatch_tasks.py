"""`batched`: functions of one example that decide on their own values."""

import bdb
import contextvars
import os
import pathlib
import signal
import sys
import threading

import numpy
import pytest

import dynograd
from dynograd import nn
from dynograd.transforms.autobatch import carriers


def test_newton_with_its_own_number_of_steps():
    def root(a):
        x, steps = a.clone(), 0
        while abs((x * x - a).item()) > 1e-9 * max(1.0, a.item()):
            x, steps = (x + a / x) / 2, steps + 1
        return x, steps

    numbers = [dynograd.tensor(float(k), dtype=dynograd.float64) for k in (2, 9, 1, 1e6, 0.25)]
    expected = [root(number) for number in numbers]
    results = dynograd.batched(root)(numbers)
    assert [steps for _, steps in results] == [steps for _, steps in expected]
    for (x, _), (other, _) in zip(results, expected):
        assert float(x) == pytest.approx(float(other), rel=1e-12)
    report = dynograd.autobatch.report()
    assert report.launches < 12 * max(steps for _, steps in expected)


class Parser(nn.Module):
    """Shift or reduce, as the scores say."""

    def __init__(self):
        super().__init__()
        self.table, self.cell = nn.Embedding(20, 6), nn.Linear(12, 6)
        self.score = nn.Linear(12, 2)

    def forward(self, tokens):
        buffer, stack, trace = list(tokens), [], []
        while buffer or len(stack) > 1:
            if len(stack) < 2:
                action = 0
            elif not buffer:
                action = 1
            else:
                action = int(self.score(dynograd.cat([stack[-1], stack[-2]])).argmax())
            trace.append(action)
            if action == 0:
                stack.append(self.table(dynograd.tensor(buffer.pop(0))))
            else:
                right, left = stack.pop(), stack.pop()
                stack.append(self.cell(dynograd.cat([left, right])).tanh())
        return stack[0], trace


def sentences(count):
    rng = numpy.random.default_rng(3)
    return [rng.integers(0, 20, rng.integers(3, 12)).tolist() for _ in range(count)]


def test_shift_reduce_with_argmax():
    dynograd.manual_seed(1)
    parser, data = Parser(), sentences(12)
    expected = [parser(item) for item in data]
    sum((h * h).sum() for h, _ in expected).backward()
    gradients = [
        parameter.grad.numpy().copy() if parameter.grad is not None else None for parameter in parser.parameters()
    ]
    parser.zero_grad()
    results = dynograd.batched(parser)(data)
    assert [trace for _, trace in results] == [trace for _, trace in expected]
    sum((h * h).sum() for h, _ in results).backward()
    for element, other in zip(parser.parameters(), gradients):
        if other is not None:
            numpy.testing.assert_allclose(element.grad.numpy(), other, rtol=1e-4, atol=1e-6)
    report = dynograd.autobatch.report()
    assert report.launches < report.calls / 2
    depth = max(len(trace) for _, trace in expected)
    assert report.launches <= 12 * depth


def test_errors_name_the_example():
    def picky(x):
        if x.item() < 0:
            raise ValueError("negative")
        return float(x * 2)

    numbers = [dynograd.tensor(float(k)) for k in (1, -1, 3)]
    with pytest.raises(ValueError, match="negative") as caught:
        dynograd.batched(picky)(numbers)
    assert "batched: in example 1" in caught.value.__notes__
    result = dynograd.batched(picky, errors="return")(numbers)
    assert result[0] == 2 and isinstance(result[1], ValueError) and result[2] == 6


def test_random_numbers_do_not_depend_on_the_other_examples():
    def noisy(x):
        y = x + dynograd.randn(2)
        if y.sum() > 0:
            y = y + dynograd.randn(2)
        return (y + dynograd.rand(2)).tolist()

    many = [dynograd.zeros(2) for _ in range(6)]
    dynograd.manual_seed(4)
    all_of_them = dynograd.batched(noisy)(many)
    dynograd.manual_seed(4)
    assert dynograd.batched(noisy, concurrent=2)(many[:3]) == all_of_them[:3]
    assert len({tuple(element) for element in all_of_them}) == 6
    assert dynograd.batched(noisy)(many[:1]) != all_of_them[:1]


def test_modes_nesting_and_no_examples():
    assert dynograd.batched(lambda x: x)([]) == []
    weight = dynograd.ones(2, requires_grad=True)
    with dynograd.no_grad():
        results = dynograd.batched(lambda x: weight * x)([1.0, 2.0])
    assert not any(result.requires_grad for result in results)

    def outer(k):
        return sum(
            float(element) for element in dynograd.batched(lambda j: (weight * j * k).sum().detach())([1.0, 2.0])
        )

    assert dynograd.batched(outer)([1.0, 3.0]) == [6.0, 18.0]


def test_more_examples_than_may_be_under_way():
    def halvings(x):
        count = 0
        while x > 1:
            x, count = x / 2, count + 1
        return count

    numbers = [float(k) for k in (5, 1, 100, 3, 3, 1, 7, 2, 60)]
    expected = [halvings(x) for x in numbers]
    for concurrent in (1, 2, 4, 100):
        assert (
            dynograd.batched(halvings, concurrent=concurrent, always=True)([dynograd.tensor(x) for x in numbers])
            == expected
        )


def test_few_examples_run_one_after_the_other():
    """Where little came together, the next calls at that line do not wait; modes and draws are those of each example all the same."""
    kinds = []

    def one(x):
        y = x * 2
        kinds.append(type(y))
        float(y)
        dynograd.set_grad_enabled(False)
        return (y + dynograd.rand(())).item()

    xs = [dynograd.ones((), requires_grad=True) * k for k in range(3)]
    result, state = [], dynograd.get_rng_state()
    for _ in range(3):
        dynograd.set_rng_state(state)
        result.append(dynograd.batched(one)(xs))
        assert dynograd.is_grad_enabled()
    assert result[0] == result[1] == result[2]
    assert kinds[3:6] == [dynograd.Tensor] * 3 and dynograd.Tensor not in kinds[:3] + kinds[6:]
    kinds.clear()
    for _ in range(2):
        dynograd.batched(one, always=True)(xs)
    assert dynograd.Tensor not in kinds
    kinds.clear()
    for count in (2, 40):  # more examples than those that gained nothing
        dynograd.batched(one)([dynograd.ones(())] * count)
    assert dynograd.Tensor not in kinds


@pytest.mark.parametrize(
    "plain, grad, examples, waits",
    [
        (lambda x: x * 2, False, 100, False),  # arithmetic on small rows costs less than noting it
        (lambda x: x * 2, True, 16, False),
        (lambda x: (x * 2).tanh() * x, True, 200, True),
        (nn.Linear(8, 8), False, 4, False),
        (nn.Linear(8, 8), False, 64, True),
        (nn.Linear(8, 8), True, 12, True),
        (nn.Sequential(nn.Linear(8, 8), nn.Tanh()), False, 16, True),
        (lambda x: x, True, 64, False),  # nothing is noted
    ],
)
def test_whether_waiting_gains(plain, grad, examples, waits):
    kinds = set()

    def one(x):
        y = plain(plain(x))
        kinds.add(type(y))
        return y

    xs = [dynograd.ones(8, requires_grad=grad) for _ in range(examples)]
    with dynograd.set_grad_enabled(grad):
        for _ in range(2):
            kinds.clear()
            dynograd.batched(one)(xs)
    assert (kinds != {dynograd.Tensor}) == waits


def test_what_waiting_gains_is_learned_by_function():
    """Functions that are called at one line are judged each by its own calls."""
    kinds, layer = [], nn.Linear(8, 8)

    def small(x):
        return x * 2

    def large(x):
        kinds.append(type(layer(layer(x))))

    xs = [dynograd.ones(8) for _ in range(32)]
    with dynograd.no_grad():
        for function in (small, large, small, large):
            dynograd.batched(function)(xs)
    assert dynograd.Tensor not in kinds


@pytest.mark.parametrize(
    "arguments, error, words",
    [
        ((3,), TypeError, "expected a function of one example, got int"),
        ((len, "ignore"), ValueError, "'raise' or 'return', got 'ignore'"),
        ((len, "raise", 0), ValueError, "positive number of examples, got 0"),
    ],
)
def test_arguments(arguments, error, words):
    with pytest.raises(error, match=words):
        dynograd.batched(*arguments[:1], **dict(zip(("errors", "concurrent"), arguments[1:])))


# --- what carries the examples -----------------------------------------------------------------------------------------------------


@pytest.fixture(params=["threads", "greenlets"])
def route(request, monkeypatch):
    """Both ways of carrying examples."""
    if request.param == "threads":
        monkeypatch.setattr(carriers, "greenlet", None)
    elif carriers.greenlet is None:
        pytest.skip("greenlet is not installed")
    return request.param


def test_each_example_has_modes_and_context_of_its_own(route):
    variable = contextvars.ContextVar("variable", default="none")
    variable.set("outer")
    weight = dynograd.ones(2, requires_grad=True)

    def one(k):
        assert variable.get() == "outer"
        variable.set(k)
        x = weight * k
        if k % 2:
            with dynograd.no_grad(), dynograd.autocast("cpu"):
                assert float(x.sum()) == 2 * k  # parked inside
                assert not dynograd.is_grad_enabled() and dynograd.is_autocast_enabled("cpu")
                x = x + 1
        else:
            float(x.sum())
            assert dynograd.is_grad_enabled() and not dynograd.is_autocast_enabled("cpu")
        assert variable.get() == k
        return x.requires_grad

    assert dynograd.batched(one)(list(range(6))) == [True, False] * 3
    assert variable.get() == "outer" and dynograd.is_grad_enabled() and not dynograd.is_autocast_enabled("cpu")


def test_modes_around_the_call_hold_in_each_example(route):
    layer = nn.Linear(3, 3)
    with dynograd.autocast("cpu", dtype=dynograd.bfloat16):
        result = dynograd.batched(lambda x: layer(x * float(x.sum())))([dynograd.ones(3), dynograd.ones(3)])
        expected = layer(dynograd.ones(3) * 3.0)
    assert result[0].dtype == expected.dtype == dynograd.bfloat16
    with dynograd.inference_mode():
        assert dynograd.batched(lambda x: dynograd.is_inference_mode_enabled())([1, 2]) == [True, True]


def test_parked_examples_are_unwound_when_one_stops_the_call(route):
    left = []

    def one(k):
        try:
            if float(dynograd.tensor(float(k)) * 2.0) == 4:
                raise KeyboardInterrupt
            float(dynograd.tensor(float(k)) * 3.0)
        finally:
            left.append(k)

    with pytest.raises(KeyboardInterrupt) as caught:
        dynograd.batched(one)([0, 1, 2, 3, 4])
    assert sorted(left) == [0, 1, 2, 3, 4] and "batched: in example 2" in caught.value.__notes__
    assert type(dynograd.ones(2) + 1) is dynograd.Tensor
    assert dynograd.batched(lambda k: float(dynograd.tensor(float(k)) * 2.0))([1, 2]) == [2, 4]


def test_an_interrupt_from_outside(route):
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals come to the main thread")
    seen = []

    def one(k):
        float(dynograd.tensor(float(k)) * 2.0)
        if k == 1:
            signal.raise_signal(signal.SIGINT) if route == "greenlets" else os.kill(os.getpid(), signal.SIGINT)
        seen.append(k)
        for _ in range(3):
            float(dynograd.tensor(float(k)) * 2.0)
        return k

    with pytest.raises(KeyboardInterrupt):
        dynograd.batched(one)([0, 1, 2])
    assert 0 in seen and dynograd.batched(float)([dynograd.ones(()), dynograd.ones(())]) == [1, 1]


def test_examples_of_examples_decide_together(route):
    def inner(x):
        count = 0
        while x.sum() > 1:
            x, count = x / 2, count + 1
        return count

    def outer(k):
        return dynograd.batched(inner, always=True)([dynograd.tensor([float(k)]), dynograd.tensor([3.0 * k])])

    result = dynograd.batched(outer, always=True)([2, 5, 40])
    assert result == [[inner(dynograd.tensor([1.0 * k])), inner(dynograd.tensor([3.0 * k]))] for k in (2, 5, 40)]
    sizes = dynograd.autobatch.report().groups
    assert max(max(size) for size in sizes.values()) == 6


def test_a_debugger_sees_values_at_once(route):
    seen = []

    class Debugger(bdb.Bdb):
        def user_line(self, frame):
            value = frame.f_locals.get("y")
            if value is not None and frame.f_code.co_name == "one" and len(seen) < 3:
                seen.append(float(value.sum()))

    def one(k):
        x = dynograd.tensor([1.0 * k])
        if k == 1:
            debugger.set_trace()
        y = x * 2
        y = y + 1
        sys.settrace(None)
        return float(y)

    debugger, before = Debugger(), sys.gettrace()
    assert dynograd.batched(one)([0, 1, 2]) == [1, 3, 5]
    sys.settrace(before)
    assert seen[:1] == [2.0]


def test_threads_are_kept(monkeypatch):
    monkeypatch.setattr(carriers, "greenlet", None)

    def one(k):
        return float(dynograd.tensor(float(k)) * 2.0), threading.get_ident()

    first = {ident for _, ident in dynograd.batched(one)(list(range(5)))}
    again = {ident for _, ident in dynograd.batched(one)(list(range(5)))}
    assert len(first) == 5 and again <= {worker.ident for worker in threading.enumerate()}
    before = threading.active_count()
    dynograd.batched(one)(list(range(5)))
    assert threading.active_count() == before
    assert len(set(dynograd.batched(lambda k: threading.get_ident())(list(range(9))))) == 1  # none of them parks


def test_the_report_says_what_greenlets_would_save(route):
    def one(k):
        return [float(dynograd.tensor(float(k)) * 2.0) for _ in range(30)]

    dynograd.batched(one, always=True)(list(range(10)))
    assert ("pip install dynograd[greenlet]" in str(dynograd.autobatch.report())) == (route == "threads")


def test_greenlets_are_kept_by_their_thread():
    if carriers.greenlet is None:
        pytest.skip("greenlet is not installed")
    seen = []

    def one(k):
        seen.append(carriers.greenlet.getcurrent())
        return float(dynograd.tensor(float(k)) * 2.0)

    def rounds():
        result = [dynograd.batched(one, always=True)(list(range(5))) for _ in range(2)]
        seen.append(result)

    for _ in range(2):
        thread = threading.Thread(target=rounds)
        thread.start()
        thread.join()
    rounds()
    for first in (0, 11, 22):
        assert len(set(seen[first : first + 5])) == 5 and set(seen[first : first + 5]) == set(
            seen[first + 5 : first + 10]
        )
        assert seen[first + 10] == [[0, 2, 4, 6, 8]] * 2


def test_one_example_runs_as_it_stands():
    def one(x):
        return type(x * 2), (x + dynograd.rand(2)).tolist()

    xs = [dynograd.zeros(2), dynograd.zeros(2)]
    dynograd.manual_seed(3)
    ((kind, numbers),) = dynograd.batched(one)(xs[:1])
    after = dynograd.rand(1)
    dynograd.manual_seed(3)
    assert kind is dynograd.Tensor and dynograd.batched(one)(xs)[0][1] == numbers
    assert dynograd.rand(1).tolist() == after.tolist()
    with pytest.raises(ValueError, match="no") as caught:
        dynograd.batched(lambda x: (_ for _ in ()).throw(ValueError("no")))([1])
    assert "batched: in example 0" in caught.value.__notes__


ANSWERS = {
    "read": lambda k, x: (k, float(x)),
    "tuple": lambda k, x: (k, x),
    "list": lambda k, x: [k, x],
    "dict": lambda k, x: {0: k, 1: x},
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_failing_call_is_the_error_of_its_example(route, kind):
    table = nn.Embedding(4, 2)

    def one(k):
        x = table(dynograd.tensor(k)) * 2
        return ANSWERS[kind](k, x.sum())

    with pytest.raises(IndexError, match="index 9") as caught:
        dynograd.batched(one)([0, 9, 2])
    assert "batched: in example 1" in caught.value.__notes__
    result = dynograd.batched(one, errors="return")([0, 9, 2])
    assert result[0][0] == 0 and isinstance(result[1], IndexError)
    assert float(result[2][1]) == pytest.approx(float(2 * table.weight[2].sum()), rel=1e-6)

    def careful(k):
        try:
            return float(table(dynograd.tensor(k)).sum())
        except IndexError:
            return None

    assert dynograd.batched(careful)([1, 9, 2])[1] is None


def test_examples_that_write(route):
    def longest(scores):
        best, row = [], dynograd.zeros(3)
        for k in range(3):
            row[k] = scores[k] + (row[k - 1] if k else 0.0)
            best.append(row.max())
        return [float(element) for element in best], row.tolist()

    def shared(x):
        y = x * counter
        counter.add_(1)
        return float(y)

    rows = [dynograd.arange(3.0) + k for k in range(4)]
    assert dynograd.batched(longest)(rows) == [longest(row) for row in rows]
    counter = dynograd.ones(())
    assert dynograd.batched(shared)([dynograd.tensor(2.0)] * 3) == [2, 4, 6]
    assert counter.item() == 4


def test_an_example_that_does_not_come_to_a_decision_is_left_behind(monkeypatch):
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals come to the main thread")
    monkeypatch.setattr(carriers, "greenlet", None)
    monkeypatch.setattr(carriers, "_PATIENCE", 0.01)
    go_on, ended, left = threading.Event(), threading.Semaphore(0), []

    def one(k):
        try:
            float(dynograd.tensor(float(k)) * 2.0)
            if k == 1:
                os.kill(os.getpid(), signal.SIGINT)
                go_on.wait(60)
            float(dynograd.tensor(float(k)) * 3.0)
        finally:
            left.append(k)
            ended.release()

    state = dynograd.get_rng_state()
    with pytest.raises(KeyboardInterrupt):
        dynograd.batched(one)([0, 1, 2])
    assert left == []
    assert dynograd.batched(lambda x: float(x * 2))([dynograd.ones(()), dynograd.ones(())]) == [2, 2]
    after = dynograd.rand(2).tolist()
    go_on.set()
    for _ in range(3):
        assert ended.acquire(timeout=5)
    assert sorted(left) == [0, 1, 2]
    dynograd.set_rng_state(state)
    assert len(after) == 2


def test_every_state_of_threads_is_carried_or_known():
    """A new `threading.local` of the package is either an example's own or named here with its reason."""
    not_carried = {
        "base/random_streams.py": "the place of a thread that stands for a process: examples take the place that it has",
        "distributed/process_groups.py": "the group of such a thread, within `simulate`",
        "compat/exporting.py": "whether the thread exports, within one export",
        "onnx/noting.py": "what an export notes, within one",
        "kernels/attention/any_size.py": "how attention is chosen, within one export",
        "kernels/build/launches.py": "launches that are noted, within one recording",
        "utils/selective_checkpoints.py": "what a checkpointed part keeps, within one",
        "kernels/build/launch_arguments_cuda.py": "memory for launches, used within one",
        "kernels/build/targets_numba.py": "whether the thread compiles, within one call",
        "kernels/build/faults_cuda.py": "what a thread has been warned of",
        "profiler/recording.py": "events of the thread that runs them",
        "cuda/copies.py": "memory for copies, used within one",
        "cuda/bindings.py": "the driver's own state of a thread",
        "cuda/thread_state.py": "the current device, which launches set",
    }
    package = pathlib.Path(dynograd.__file__).parent
    carried = {module.partition("dynograd.")[2].replace(".", "/") + ".py" for module, _ in carriers._STATES}
    result = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if "threading.local" in path.read_text() and path.name != "carriers.py"
    }
    assert result == carried | set(not_carried)
