"""no_grad and its relatives, anomaly mode, and that modes belong to a thread."""

from __future__ import annotations

import threading

import pytest

import dynograd as dg
from dynograd.autograd import modes
from dynograd.errors import GradientError


def leaf(*values: float) -> dg.Tensor:
    return dg.tensor(values, requires_grad=True)


@pytest.mark.parametrize("mode", [dg.no_grad, dg.inference_mode])
def test_nothing_is_recorded_inside(mode):
    x = leaf(1.0)
    with mode():
        assert not (x * 2).requires_grad and not dg.is_grad_enabled()
    assert (x * 2).requires_grad


def test_modes_nest_and_end_on_errors():
    with pytest.raises(KeyError), dg.no_grad(), dg.enable_grad():
        assert dg.is_grad_enabled()
        raise KeyError
    assert dg.is_grad_enabled()


def test_modes_decorate_functions_and_generators():
    x = leaf(1.0)

    @dg.no_grad()
    def plain():
        return x * 2

    @dg.no_grad
    def bare():
        return x * 2

    @dg.no_grad()
    def steps():
        for _ in range(2):
            yield (x * 2).requires_grad

    assert not plain().requires_grad and not bare().requires_grad
    for recorded in steps():
        assert not recorded and dg.is_grad_enabled()
    with pytest.raises(TypeError, match="decorate a function"):
        dg.no_grad()(type("C", (), {}))


def test_a_decorated_generator_takes_values_errors_and_its_end():
    """As the generator itself does, and each of its steps is in the mode."""
    modes = []

    @dg.no_grad()
    def steps():
        got = []
        try:
            while len(got) < 5:
                try:
                    got.append((yield dg.is_grad_enabled()))
                except ValueError as error:
                    modes.append(dg.is_grad_enabled())
                    got.append(str(error))
            return got
        finally:
            modes.append(dg.is_grad_enabled())

    def outer():
        return (yield from steps())

    for make in (steps, outer):
        modes.clear()
        generator = make()
        assert next(generator) is False and generator.send(1) is False
        assert generator.throw(ValueError("a")) is False and generator.throw(ValueError("b")) is False
        assert generator.send(2) is False and dg.is_grad_enabled()
        with pytest.raises(StopIteration) as end:
            generator.throw(ValueError("c"))
        assert end.value.value == [1, "a", "b", 2, "c"] and modes == [False] * 4

        modes.clear()
        generator = make()
        next(generator)
        with pytest.raises(KeyError):
            generator.throw(KeyError("d"))
        assert modes == [False] and dg.is_grad_enabled()

        generator = make()
        next(generator)
        generator.close()
        assert modes == [False] * 2 and dg.is_grad_enabled()


def test_set_grad_enabled_works_at_once_and_as_a_context():
    with dg.set_grad_enabled(False):
        assert not dg.is_grad_enabled()
    assert dg.is_grad_enabled()
    dg.set_grad_enabled(False)
    assert not dg.is_grad_enabled()
    dg.set_grad_enabled(True)


def test_inference_mode_is_reported():
    with dg.inference_mode():
        assert dg.is_inference_mode_enabled()
        with dg.inference_mode(False):
            assert dg.is_grad_enabled()
    assert not dg.is_inference_mode_enabled()


def test_modes_belong_to_their_thread():
    seen = []
    with dg.no_grad():
        thread = threading.Thread(target=lambda: seen.append(dg.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_anomaly_mode_names_the_forward_line_of_a_nan():
    x = leaf(0.0)
    with dg.autograd.detect_anomaly():
        y = (x / x).sum()
        with pytest.raises(GradientError, match=r"(?s)div.*nan values.*test_modes.py:\d+ in test_anomaly"):
            y.backward()
    assert not dg.is_anomaly_enabled()


def test_anomaly_mode_can_leave_nan_alone():
    x = leaf(0.0)
    with dg.autograd.detect_anomaly(check_nan=False):
        (x / x).sum().backward()
    assert x.grad.isnan().all()


def test_anomaly_mode_adds_the_line_to_other_errors():
    class Broken(dg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise ValueError("inner")

    with dg.autograd.detect_anomaly():
        y = Broken.apply(leaf(1.0)).sum()
    with pytest.raises(ValueError, match="inner") as caught:
        y.backward()
    assert any("test_modes.py" in note for note in caught.value.__notes__)


def test_a_watcher_that_came_twice_is_taken_away_once():
    seen = []
    first, second = seen.append, lambda node: seen.append(None)
    before = modes.MODES.watchers
    for watcher in (first, second, first):
        modes.watch(watcher)
    modes.unwatch(first)
    assert modes.MODES.watchers == (*before, first, second)
    leaf(1.0) * 2
    assert len(seen) == 2 and seen.count(None) == 1
    modes.unwatch(second)
    modes.unwatch(first)
    assert modes.MODES.watchers == before
