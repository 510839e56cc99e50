"""LBFGS on functions whose minima are known, its line search, its state, and its errors."""

import numpy as np
import pytest

import dynograd
from dynograd import optim
from dynograd.optim import lbfgs
from dynograd.optim.line_searches import CURVATURE, DECREASE, _cubic, _Point, strong_wolfe
from tests.optim.training import numpy_of

SEARCHES = ["strong_wolfe", None]


def quadratic(dtype=dynograd.float64):
    """(parameters, loss, the minimum's place): a bowl over two parameters."""
    random = np.random.default_rng(0)
    factor = random.normal(size=(5, 5))
    matrix, place = factor @ factor.T + np.eye(5), random.normal(size=5)
    m, at = (dynograd.tensor(value).to(dtype) for value in (matrix, place))
    a, b = (dynograd.zeros(shape, dtype=dtype, requires_grad=True) for shape in ((2,), (1, 3)))

    def loss():
        x = dynograd.cat([a, b.reshape(3)]) - at
        return 0.5 * (x @ (m @ x))

    return [a, b], loss, place


def rosenbrock():
    w = dynograd.tensor([-1.2, 1.0], dtype=dynograd.float64, requires_grad=True)
    return [w], lambda: 100 * (w[1] - w[0] ** 2) ** 2 + (1 - w[0]) ** 2, np.ones(2)


def closure_of(optimizer, loss, calls=None):
    def closure():
        optimizer.zero_grad()
        value = loss()
        value.backward()
        if calls is not None:
            calls.append(value.item())
        return value

    return closure


def place_of(parameters):
    return np.concatenate([numpy_of(p).ravel() for p in parameters])


@pytest.mark.parametrize(
    "dtype, tolerance", [(dynograd.float64, 1e-6), (dynograd.float32, 1e-3)], ids=["float64", "float32"]
)
@pytest.mark.parametrize("search", SEARCHES)
def test_quadratic(search, dtype, tolerance):
    parameters, loss, place = quadratic(dtype)
    optimizer = optim.LBFGS(
        parameters, lr=1 if search else 0.5, max_iter=100, tolerance_change=1e-14, line_search_fn=search
    )
    first = optimizer.step(closure_of(optimizer, loss))
    assert first.item() > 0.1
    np.testing.assert_allclose(place_of(parameters), place, atol=tolerance)
    assert [p.dtype for p in parameters] == [dtype] * 2


@pytest.mark.parametrize("history_size", [3, 100])
def test_rosenbrock(history_size):
    parameters, loss, place = rosenbrock()
    options = dict(max_iter=60, tolerance_change=1e-14, history_size=history_size)
    optimizer = optim.LBFGS(parameters, line_search_fn="strong_wolfe", **options)
    optimizer.step(closure_of(optimizer, loss))
    np.testing.assert_allclose(place_of(parameters), place, atol=1e-6)
    state = optimizer.state[parameters[0]]
    assert len(state["ro"]) == len(state["old_dirs"]) == len(state["old_stps"]) <= history_size


def test_complex_parameters_and_parameters_without_gradient():
    w = dynograd.tensor([1 + 2j, -3j], requires_grad=True)
    other = dynograd.ones(3, requires_grad=True)
    goal = dynograd.tensor([2 - 1j, 0.5 + 0j])
    optimizer = optim.LBFGS([w, other], line_search_fn="strong_wolfe")
    optimizer.step(closure_of(optimizer, lambda: ((w - goal).abs() ** 2).sum()))
    np.testing.assert_allclose(w.detach().numpy(), goal.numpy(), atol=1e-5)
    assert other.tolist() == [1, 1, 1]


@pytest.mark.parametrize("search", SEARCHES)
def test_evaluations_are_counted_and_bounded(search):
    parameters, loss, _ = rosenbrock()
    optimizer = optim.LBFGS(parameters, lr=1e-3 if search is None else 1, max_iter=8, line_search_fn=search)
    assert optimizer.param_groups[0]["max_eval"] == 10
    calls = []
    for _ in range(3):
        optimizer.step(closure_of(optimizer, loss, calls))
    state = optimizer.state[parameters[0]]
    assert state["func_evals"] == len(calls) <= 3 * 10 and state["n_iter"] <= 3 * 8


def test_nothing_to_do():
    w = dynograd.zeros(2, requires_grad=True)
    optimizer = optim.LBFGS([w])
    calls = []
    optimizer.step(closure_of(optimizer, lambda: (w * w).sum(), calls))
    assert calls == [0] and optimizer.state[w] == {"func_evals": 1, "n_iter": 0}


@pytest.mark.parametrize("search", SEARCHES)
def test_training_goes_on_bit_for_bit(search):
    def run(interrupted):
        parameters, loss, _ = rosenbrock()
        options = dict(lr=1e-3 if search is None else 1, max_iter=4, history_size=3, line_search_fn=search)
        optimizer = optim.LBFGS(parameters, **options)
        for step in range(6):
            if interrupted and step == 3:
                saved = optimizer.state_dict()
                optimizer = optim.LBFGS(parameters, lr=5)
                optimizer.load_state_dict(saved)
            optimizer.step(closure_of(optimizer, loss))
        return place_of(parameters)

    np.testing.assert_array_equal(run(False), run(True))


@pytest.mark.parametrize("length", [1e-3, 0.1, 1.0, 10.0])
@pytest.mark.parametrize(
    "function, slope",
    [
        (lambda x: (x - 3) ** 2, lambda x: 2 * (x - 3)),
        (lambda x: -x / (x**2 + 2), lambda x: (x**2 - 2) / (x**2 + 2) ** 2),
        (lambda x: (x + 0.004) ** 5 - 2 * (x + 0.004) ** 4, lambda x: 5 * (x + 0.004) ** 4 - 8 * (x + 0.004) ** 3),
    ],
    ids=["quadratic", "more-1", "more-2"],
)
def test_lengths_meet_the_strong_wolfe_conditions(function, slope, length):
    """Functions 1 and 2 of More and Thuente, Line Search Algorithms with Guaranteed Sufficient Decrease, 1994."""

    def at(x):
        return function(x), dynograd.tensor([slope(x)], dtype=dynograd.float64)

    calls = []
    d = dynograd.ones(1, dtype=dynograd.float64)
    loss, gradient, result, count = strong_wolfe(
        lambda x: calls.append(x) or at(x), length, d, function(0.0), at(0.0)[1], slope(0.0), most=60
    )
    assert count == len(calls) and loss == function(result) and gradient.item() == slope(result)
    assert loss <= function(0.0) + DECREASE * result * slope(0.0)
    assert abs(slope(result)) <= CURVATURE * abs(slope(0.0))


@pytest.mark.parametrize("most", [1, 2, 5, None])
def test_a_search_down_a_slope_without_end_is_bounded(most):
    """By 25 trials where nothing is said. The last length tried, or the best one between it and the one before."""
    lengths = []
    d = dynograd.ones(1)
    loss, gradient, length, count = strong_wolfe(
        lambda x: lengths.append(x) or (-x, -d), 1.0, d, 0.0, -d, -1.0, **({} if most is None else {"most": most})
    )
    assert count == len(lengths) == (25 if most is None else most) + 1 and lengths == sorted(lengths)
    assert (loss, length) == (-lengths[-1], lengths[-1]) and gradient.item() == -1.0


def test_a_loss_that_becomes_nan_ends_the_search():
    w = dynograd.tensor([1.0], requires_grad=True)
    optimizer = optim.LBFGS([w], line_search_fn="strong_wolfe", max_iter=5)
    optimizer.step(closure_of(optimizer, lambda: (w - 2).log().sum() * 0 + (w * w).sum()))


def leaf():
    return dynograd.ones(2, requires_grad=True)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: optim.LBFGS([{"params": leaf()}, {"params": leaf()}]), ValueError, "parameter groups.*got 2 groups"),
        (lambda: optim.LBFGS([leaf()]).step(), TypeError, "closure"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_errors_of_a_step():
    w = leaf()
    optimizer = optim.LBFGS([w], line_search_fn="golden")
    with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported, but line_search_fn is 'golden'"):
        optimizer.step(closure_of(optimizer, lambda: (w * w).sum()))
    optimizer.add_param_group({"params": leaf()})
    with pytest.raises(ValueError, match="expected one parameter group, but there are 2"):
        optimizer.step(closure_of(optimizer, lambda: (w * w).sum()))


@pytest.mark.parametrize("most", [3, 6])
def test_a_search_between_two_lengths_is_bounded(most):
    """The loss grows at every length, however short: the best is where it began."""
    lengths = []
    d = dynograd.ones(1, dtype=dynograd.float64)
    loss, _, length, count = strong_wolfe(
        lambda x: lengths.append(x) or (1 + x, d), 1.0, d, 0.0, -d, -1.0, tolerance_change=0.0, most=most
    )
    assert count == len(lengths) == most + 1 and (loss, length) == (0.0, 0.0)
    assert lengths == sorted(lengths, reverse=True) and lengths[-1] > 0


def test_the_cubic_between_points():
    def point(length, loss, slope):
        return _Point(length, loss, None, slope)

    assert _cubic(point(1.0, 2.0, -1.0), point(1.0, 2.0, -1.0), 0.0, 3.0) == 1.5  # one point twice
    for a, b, bend in ((0.0, 4.0, 1), (-1.0, 7.0, 1), (2.5, 3.5, 1), (0.0, 4.0, 0.01)):  # of a parabola around 3
        ends = [point(at, bend * (at - 3) ** 2, 2 * bend * (at - 3)) for at in (a, b)]
        assert _cubic(*ends, -10.0, 10.0) == pytest.approx(3.0) == _cubic(*reversed(ends), -10.0, 10.0)
        assert _cubic(*ends, -10.0, 2.0) == 2.0 and _cubic(*ends, 4.0, 10.0) == 4.0
    rising = [point(at, at**3 + at, 3 * at**2 + 1) for at in (0.0, 1.0)]
    assert _cubic(*rising, 0.0, 1.0) == 0.5  # it has no lowest place


def test_the_oldest_steps_are_forgotten():
    kept = {"old_dirs": [], "old_stps": [], "ro": [], "prev_flat_grad": dynograd.zeros(2), "H_diag": 1}
    for step in range(1, 5):
        kept |= {"d": dynograd.full((2,), float(step)), "t": 1.0}
        lbfgs._remember(kept, dynograd.full((2,), 2.0 * step), 2)
    assert [element.tolist() for element in kept["old_stps"]] == [[3.0, 3.0], [4.0, 4.0]]
    assert [element.tolist() for element in kept["old_dirs"]] == [[6.0, 6.0], [8.0, 8.0]]
    assert [float(element) for element in kept["ro"]] == pytest.approx([1 / 36, 1 / 64]) and float(
        kept["H_diag"]
    ) == 0.5
    lbfgs._remember(kept, dynograd.zeros(2), 2)  # without curvature nothing is kept
    assert len(kept["ro"]) == 2 and float(kept["H_diag"]) == 0.5


@pytest.mark.parametrize("scale, length", [(0.1, 1.0), (1.0, 1 / 2), (5.0, 1 / 10)])
def test_the_first_step_is_no_longer_than_the_rate(scale, length):
    """The rate times one over the sum of the gradient's sizes, or times 1 where that is more."""
    w = dynograd.zeros(2, requires_grad=True)
    optimizer = optim.LBFGS([w], lr=0.5, max_iter=1)

    def closure():
        optimizer.zero_grad()
        loss = (w * dynograd.tensor([scale, -scale])).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert w.tolist() == pytest.approx([-0.5 * length * scale, 0.5 * length * scale])


def test_a_rate_that_is_a_tensor_leaves_a_length_that_is_one():
    parameters, loss, _ = quadratic()
    lengths = []
    for lr in (0.5, dynograd.tensor(0.5, dtype=dynograd.float64)):
        optimizer = optim.LBFGS(parameters, lr=lr, max_iter=3)
        optimizer.step(closure_of(optimizer, loss))
        lengths.append(optimizer.state[parameters[0]]["t"])
    assert type(lengths[0]) is float and lengths[1].dtype is dynograd.float64 and float(lengths[1]) == 0.5
