"""Optimizers whose update is made of operations, against references in NumPy: values, dtypes, states, differentiable steps, errors."""

import itertools

import numpy as np
import pytest

import dynograd
from dynograd import optim
from tests.optim import references
from tests.optim.training import numpy_of, parameters_of, train, values_and_gradients


def grid(**choices):
    """Every combination of the choices."""
    return [dict(zip(choices, values)) for values in itertools.product(*choices.values())]


DECAYS = dict(weight_decay=[0, 0.1], maximize=[False, True])
OPTIONS = {
    "NAdam": grid(lr=[0.1], decoupled_weight_decay=[False, True], **DECAYS)
    + [dict(lr=0.1, betas=(0.5, 0.8), eps=1e-3, momentum_decay=0.3)],
    "RAdam": grid(lr=[0.1], decoupled_weight_decay=[False, True], **DECAYS)
    + [dict(lr=0.1, betas=(0.5, 0.7), eps=1e-3)],
    "Adamax": [*grid(lr=[0.1], **DECAYS), dict(lr=0.1, betas=(0.5, 0.8), eps=1e-2)],
    "Adagrad": grid(lr=[0.1], lr_decay=[0, 0.1], initial_accumulator_value=[0, 0.3], **DECAYS)
    + [dict(lr=0.1, eps=0.1)],
    "Adadelta": [*grid(lr=[1.0, 0.3], **DECAYS), dict(rho=0.5, eps=1e-2)],
    "RMSprop": grid(lr=[0.1], momentum=[0, 0.9], centered=[False, True], **DECAYS) + [dict(alpha=0.5, eps=0.1)],
    "Rprop": [*grid(lr=[0.1], maximize=[False, True]), dict(etas=(0.3, 2.0), step_sizes=(0.02, 0.3), lr=0.1)],
    "ASGD": [*grid(lr=[0.1], t0=[1e6, 3], lambd=[1e-4, 0.3], **DECAYS), dict(lr=0.1, alpha=0.5, lambd=0.2)],
    "Adafactor": [
        *grid(lr=[0.1], **DECAYS),
        dict(lr=0.9),
        dict(lr=0.5, beta2_decay=-0.3, eps=(0.1, 0.5), d=1.5),
    ],
}
ROWS = [(name, options) for name, rows in OPTIONS.items() for options in rows]
FIRST = [(name, rows[-1]) for name, rows in OPTIONS.items()]
SHAPES = [(3,), (), (0,), (5, 4), (2, 3, 2), (50, 60), (7,)]
STEPS = 10
TOLERANCES = {dynograd.float64: 1e-12, dynograd.float32: 3e-5, dynograd.bfloat16: 1e-1}
COUNTERS = ("step", "mu_product", "eta", "mu")


def row_id(row):
    return row[0] + "-" + ",".join(f"{name}={value}" for name, value in row[1].items() if value and name != "lr")


def make(row, parameters, **more):
    return getattr(optim, row[0])(parameters, **row[1], **more)


def reference(row, value, gradients, **more):
    return getattr(references, row[0].lower())(value, gradients, **row[1], **more)


@pytest.mark.parametrize("row", ROWS, ids=row_id)
def test_steps_match_the_reference(row):
    values, gradients = values_and_gradients(SHAPES, STEPS)
    for number, mine in enumerate(gradients):
        mine[number % 4] = None
    gradients[0] = [None] * STEPS
    parameters = parameters_of(values)
    train(make(row, parameters), parameters, gradients, range(STEPS))
    for parameter, value, mine in zip(parameters, values, gradients):
        np.testing.assert_allclose(numpy_of(parameter), reference(row, value, mine), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("row", ROWS, ids=row_id)
def test_a_small_parameter_alone_matches_the_reference(row):
    for shape in SHAPES[:5]:
        values, gradients = values_and_gradients([shape], STEPS)
        parameters = parameters_of(values)
        train(make(row, parameters), parameters, gradients, range(STEPS))
        expected = reference(row, values[0], gradients[0])
        np.testing.assert_allclose(numpy_of(parameters[0]), expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("row", FIRST, ids=row_id)
def test_dtypes(row, dtype):
    values, gradients = values_and_gradients(SHAPES, 3)
    parameters = parameters_of(values, dtype)
    optimizer = make(row, parameters)
    train(optimizer, parameters, gradients, range(3))
    assert {parameter.dtype for parameter in parameters} == {dtype}
    for state in optimizer.state.values():
        assert {value.dtype for name, value in state.items() if name not in COUNTERS} == {dtype}
        assert {value.dtype for name, value in state.items() if name in COUNTERS} == {dynograd.float32}
    for parameter, value, mine in zip(parameters, values, gradients):
        tolerance = TOLERANCES[dtype]
        np.testing.assert_allclose(numpy_of(parameter), reference(row, value, mine), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", [name for name in OPTIONS if name != "Adafactor"])
def test_complex_parameters_are_pairs_of_numbers(name):
    pairs = np.random.default_rng(1).normal(size=(5, 6, 2))
    row = name, OPTIONS[name][-1]
    parameter = dynograd.tensor(pairs[0].view(np.complex128)[:, 0]).requires_grad_()
    train(make(row, [parameter]), [parameter], [[pair.view(np.complex128)[:, 0] for pair in pairs[1:]]], range(4))
    result = parameter.detach().numpy().view(np.float64).reshape(6, 2)
    np.testing.assert_allclose(result, reference(row, pairs[0], list(pairs[1:])), rtol=1e-12)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("row", [*FIRST, ("ASGD", dict(t0=2)), ("Muon", {})], ids=row_id)
def test_training_goes_on_bit_for_bit(row, dtype):
    shapes = [(5, 4), (3, 7)] if row[0] == "Muon" else SHAPES
    values, gradients = values_and_gradients(shapes, 6)
    straight, resumed = parameters_of(values, dtype), parameters_of(values, dtype)
    train(make(row, straight), straight, gradients, range(6))
    first = make(row, resumed)
    train(first, resumed, gradients, range(3))
    second = getattr(optim, row[0])(resumed, lr=123.0)
    second.load_state_dict(first.state_dict())
    train(second, resumed, gradients, range(3, 6))
    for element, other in zip(straight, resumed):
        np.testing.assert_array_equal(numpy_of(element), numpy_of(other))


@pytest.mark.parametrize("name", OPTIONS)
def test_groups_closures_and_steps_as_numbers(name):
    values, gradients = values_and_gradients([(3,), (4, 2)], 3)
    a, b = parameters = parameters_of(values)
    optimizer = getattr(optim, name)([{"params": [a]}, {"params": [b], "lr": 0.5}], lr=0.1)
    train(optimizer, parameters, gradients, range(2))
    for state in optimizer.state.values():  # as in old state_dicts
        for counter in set(state) & set(COUNTERS):
            state[counter] = state[counter].item()
    optimizer.load_state_dict(optimizer.state_dict())
    for parameter, mine in zip(parameters, gradients):
        parameter.grad = dynograd.tensor(mine[2])
    assert optimizer.step(lambda: dynograd.is_grad_enabled()) is True
    for parameter, value, mine, lr in zip(parameters, values, gradients, (0.1, 0.5)):
        np.testing.assert_allclose(numpy_of(parameter), reference((name, dict(lr=lr)), value, mine), rtol=1e-6)


@pytest.mark.parametrize("shape", [(3, 4), (30, 40)])
@pytest.mark.parametrize("steps", [1, 8])
def test_asgd_keeps_the_average(steps, shape):
    values, gradients = values_and_gradients([shape], steps)
    parameters = parameters_of(values)
    optimizer = optim.ASGD(parameters, lr=0.1, t0=3)
    train(optimizer, parameters, gradients, range(steps))
    result = optimizer.state[parameters[0]]["ax"].numpy()
    expected = references.asgd(values[0], gradients[0], lr=0.1, t0=3, average=True)
    np.testing.assert_allclose(result, expected, rtol=1e-12)


def test_adagrad_has_states_from_the_start():
    w, late = dynograd.ones(2, requires_grad=True), dynograd.ones(3, requires_grad=True)
    optimizer = optim.Adagrad([w], initial_accumulator_value=0.5)
    assert optimizer.state[w]["sum"].tolist() == [0.5, 0.5] and optimizer.state[w]["step"].item() == 0
    optimizer.add_param_group({"params": [late]})
    late.grad = dynograd.ones(3)
    optimizer.step()
    assert optimizer.state[late]["sum"].tolist() == [1.5] * 3
    optimizer.share_memory()
    assert optimizer.state[w]["sum"].tolist() == [0.5, 0.5]


@pytest.mark.parametrize("count", [1, 500])
def test_a_nan_does_not_move_rprop(count):
    w = dynograd.ones(2 * count, requires_grad=True)
    optimizer = optim.Rprop([w], lr=0.1)
    train(optimizer, [w], [[np.array([np.nan, 1.0] * count)] * 2], range(2))
    np.testing.assert_allclose(numpy_of(w), [1, 0.78] * count, rtol=1e-6)
    np.testing.assert_allclose(optimizer.state[w]["step_size"].numpy(), [0.1, 0.12] * count, rtol=1e-6)


@pytest.mark.parametrize("name", OPTIONS)
def test_nan_and_infinite_gradients(name):
    """The same in one compiled call as by operations."""
    mine = np.array([1.0, np.nan, np.inf, -np.inf, 0.0] * 100)
    result = []
    for count in (1, 5):  # five parameters are enough for the compiled call
        parameters = [dynograd.ones(5 if count == 1 else 500, requires_grad=True) for _ in range(count)]
        gradient = mine[: parameters[0].numel()]
        train(getattr(optim, name)(parameters, lr=0.1), parameters, [[gradient] * 3] * count, range(3))
        result.append(numpy_of(parameters[0])[:5])
    np.testing.assert_allclose(result[0], result[1], rtol=1e-5)


# --- Muon --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        dict(nesterov=False),
        dict(weight_decay=0, momentum=0.5, adjust_lr_fn="original"),
        dict(adjust_lr_fn="match_rms_adamw", ns_steps=2),
        dict(ns_coefficients=(1.5, -0.5, 0.0), ns_steps=8),
    ],
)
def test_muon(options):
    """The iteration is done in bfloat16, so a step is right to some hundredths of itself."""
    values, gradients = values_and_gradients([(5, 4), (4, 9), (30, 20)], 5)
    parameters = parameters_of(values)
    train(optim.Muon(parameters, lr=0.1, **options), parameters, gradients, range(5))
    for parameter, value, mine in zip(parameters, values, gradients):
        expected = references.muon(value, mine, lr=0.1, **options)
        moved = np.linalg.norm(expected - value)
        assert np.linalg.norm(numpy_of(parameter) - expected) < 0.05 * moved


# --- differentiable ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "row",
    [
        ("NAdam", dict(weight_decay=0.1)),
        ("NAdam", dict(weight_decay=0.1, decoupled_weight_decay=True)),
        ("RAdam", dict(betas=(0.5, 0.7), maximize=True)),
        ("RAdam", dict(weight_decay=0.1, decoupled_weight_decay=True)),
        ("Adamax", dict(weight_decay=0.1)),
        ("Adagrad", dict(lr_decay=0.1, initial_accumulator_value=0.1)),
        ("Adadelta", dict(rho=0.5, eps=1e-2)),
        ("RMSprop", dict(weight_decay=0.1)),
        ("RMSprop", dict(centered=True, momentum=0.9, alpha=0.5)),
        ("Rprop", {}),
        ("ASGD", dict(t0=1, weight_decay=0.1)),
    ],
    ids=row_id,
)
def test_differentiable_step(row):
    """Values as of the plain steps, and gradients through three of them against finite differences."""
    start, scales, name = np.array([1.0, -2.0, 0.5]), np.array([0.5, 2.0, -0.4]), row[0]
    lr = dynograd.tensor(0.1, dtype=dynograd.float64, requires_grad=name not in ("Rprop", "ASGD"))
    scale, first = (dynograd.tensor(value, requires_grad=True) for value in (scales, start))
    p = first.clone()
    optimizer = make(row, [p], lr=lr, differentiable=True)
    for step in range(3):
        p.grad = scale * (step + 1) + scale * scale
        optimizer.step()
    result = (p**2).sum()
    result.backward()

    def plain(lr, scales, start):
        gradients = [scales * (step + 1) + scales * scales for step in range(3)]
        return (reference(row, start, gradients, lr=lr) ** 2).sum()

    np.testing.assert_allclose(result.item(), plain(0.1, scales, start), rtol=1e-7)
    tiny = 1e-6
    if lr.requires_grad:
        slope = (plain(0.1 + tiny, scales, start) - plain(0.1 - tiny, scales, start)) / (2 * tiny)
        np.testing.assert_allclose(lr.grad.item(), slope, rtol=1e-5)
    for number, shift in enumerate(np.eye(3) * tiny):
        slope = (plain(0.1, scales + shift, start) - plain(0.1, scales - shift, start)) / (2 * tiny)
        actual = 0.0 if scale.grad is None else scale.grad[number].item()
        np.testing.assert_allclose(actual, slope, rtol=1e-5, atol=1e-6)
        slope = (plain(0.1, scales, start + shift) - plain(0.1, scales, start - shift)) / (2 * tiny)
        np.testing.assert_allclose(first.grad[number].item(), slope, rtol=1e-5, atol=1e-6)


def test_nadam_differentiates_the_product_of_its_momenta():
    def stepped(product):
        p = dynograd.tensor([1.0, -2.0], dtype=dynograd.float64, requires_grad=True).clone()
        optimizer = optim.NAdam([p], lr=0.1, differentiable=True)
        p.grad = dynograd.tensor([0.5, 0.25], dtype=dynograd.float64)
        optimizer.state[p] = {
            "step": dynograd.tensor(3.0),
            "mu_product": product.clone(),
            "exp_avg": dynograd.ones(2, dtype=dynograd.float64),
            "exp_avg_sq": dynograd.ones(2, dtype=dynograd.float64),
        }
        optimizer.step()
        return p.sum()

    product = dynograd.tensor(0.5, dtype=dynograd.float64, requires_grad=True)
    stepped(product).backward()
    slope = (stepped(product.detach() + 1e-6) - stepped(product.detach() - 1e-6)).item() / 2e-6
    np.testing.assert_allclose(product.grad.item(), slope, rtol=1e-6)


# --- errors ------------------------------------------------------------------------------------------------------------------


def leaf(shape=(2, 2), dtype=None):
    return dynograd.ones(shape, dtype=dtype, requires_grad=True)


EVERY = ["NAdam", "RAdam", "Adamax", "Adagrad", "Adadelta", "RMSprop", "Rprop", "ASGD", "LBFGS", "Adafactor", "Muon"]


def one_step(name, parameter, gradient=None, **options):
    parameter.grad = dynograd.ones_like(parameter) if gradient is None else gradient
    getattr(optim, name)([parameter], **options).step()


@pytest.mark.parametrize(
    "call, error, text",
    [
        *[
            (lambda name=name: getattr(optim, name)([leaf()], lr=-1), ValueError, f"{name}: Invalid learning rate: -1")
            for name in [*EVERY, "SparseAdam"]
        ],
        *[
            (
                lambda name=name: getattr(optim, name)([leaf()], lr=dynograd.ones(2)),
                ValueError,
                f"{name}: Tensor lr must be 1-element",
            )
            for name in [*EVERY, "SparseAdam"]
        ],
        (lambda: optim.NAdam([leaf()], momentum_decay=-1), ValueError, "Invalid momentum_decay value: -1"),
        (lambda: optim.NAdam([leaf()], betas=(1.0, 0.9)), ValueError, "Invalid beta parameter at index 0: 1.0"),
        (lambda: optim.RAdam([leaf()], betas=(0.9, -0.1)), ValueError, "Invalid beta parameter at index 1: -0.1"),
        (lambda: optim.RAdam([leaf()], eps=-1), ValueError, "Invalid epsilon value: -1"),
        (lambda: optim.Adamax([leaf()], weight_decay=-1), ValueError, "Invalid weight_decay value: -1"),
        (lambda: optim.Adagrad([leaf()], lr_decay=-1), ValueError, "Invalid lr_decay value: -1"),
        (
            lambda: optim.Adagrad([leaf()], initial_accumulator_value=-1),
            ValueError,
            "Invalid initial_accumulator_value value: -1",
        ),
        (lambda: optim.Adagrad([leaf()], fused=True, foreach=True), RuntimeError, "cannot be `True` together"),
        (lambda: optim.Adagrad([leaf()], fused=True, differentiable=True), RuntimeError, "does not support"),
        (
            lambda: optim.Adadelta([leaf()], rho=1.1),
            ValueError,
            r"Invalid rho value: 1.1. Expected a number in \[0, 1\]",
        ),
        (lambda: optim.RMSprop([leaf()], momentum=-1), ValueError, "Invalid momentum value: -1"),
        (lambda: optim.RMSprop([leaf()], alpha=-1), ValueError, "Invalid alpha value: -1"),
        (lambda: optim.Rprop([leaf()], etas=(0.5, 0.9)), ValueError, "Invalid eta values: 0.5, 0.9"),
        (lambda: optim.Adafactor([leaf()], beta2_decay=1), ValueError, "beta2_decay should be <= 0 but is: 1"),
        (lambda: optim.Adafactor([leaf()], eps=(-1, 0)), ValueError, "epsilon1 should be >= 0 but is: -1"),
        (lambda: optim.Adafactor([leaf()], eps=(None, -1)), ValueError, "epsilon2 should be >= 0 but is: -1"),
        (lambda: optim.Adafactor([leaf()], d=0.5), ValueError, "d should be >= 1 but is: 0.5"),
        (
            lambda: one_step("Adafactor", leaf(dtype=dynograd.complex64)),
            RuntimeError,
            "Adafactor does not support complex",
        ),
        (lambda: optim.Muon([leaf((3,))]), ValueError, r"Muon only supports 2D parameters, but one has shape \(3,\)"),
        (lambda: optim.Muon([leaf()], momentum=-1), ValueError, "Invalid momentum: -1"),
        (
            lambda: optim.Muon([leaf()], adjust_lr_fn="x"),
            ValueError,
            "Adjust learning rate function x is not supported",
        ),
        (lambda: one_step("Muon", leaf(), ns_steps=100), ValueError, "must be less than 100"),
        (lambda: one_step("Muon", leaf(), ns_coefficients=(1, 2)), ValueError, "exactly 3 values"),
        (lambda: one_step("Muon", leaf(dtype=dynograd.complex64)), RuntimeError, "Muon does not support complex"),
        (lambda: optim.SparseAdam([leaf()], lr=0), ValueError, "Invalid learning rate: 0. Expected a number above 0"),
        (lambda: optim.SparseAdam([leaf()], eps=0), ValueError, "Invalid epsilon value: 0"),
        (
            lambda: one_step("SparseAdam", leaf()),
            RuntimeError,
            "does not support dense gradients, please consider Adam",
        ),
        (
            lambda: optim.SparseAdam([leaf(), leaf(dtype=dynograd.complex64)]),
            ValueError,
            r"Complex params at indices \[\[0, 1\]\]",
        ),
        (
            lambda: one_step("RMSprop", leaf(dtype=dynograd.complex64), differentiable=True),
            RuntimeError,
            "RMSprop: differentiable=True does not take complex parameters",
        ),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_states_of_another_shape_are_refused():
    w = leaf()
    optimizer = optim.NAdam([w])
    train(optimizer, [w], [[np.ones((2, 2))]], [0])
    saved = optimizer.state_dict()
    with pytest.raises(
        ValueError, match=r"exp_avg of parameter 0 has shape \(2, 2\), but the parameter has shape \(3,\)"
    ):
        optim.NAdam([leaf((3,))]).load_state_dict(saved)


@pytest.mark.parametrize("shape", [(5, 4), (50, 60)])
def test_adafactor_keeps_means_of_rows_and_columns(shape):
    values, gradients = values_and_gradients([shape], 1)
    parameters = parameters_of(values)
    optimizer = optim.Adafactor(parameters)
    train(optimizer, parameters, gradients, range(1))
    squares, state = gradients[0][0] ** 2, optimizer.state[parameters[0]]
    np.testing.assert_allclose(state["row_var"].numpy(), squares.mean(-1, keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(state["col_var"].numpy(), squares.mean(-2, keepdims=True), rtol=1e-12)
