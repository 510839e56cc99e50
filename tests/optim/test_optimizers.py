"""SGD, Adam and AdamW against references in NumPy: values, dtypes, groups, saved and differentiable steps."""

import itertools

import numpy as np
import pytest

import dynograd
from dynograd import optim
from tests.optim import references
from tests.optim.training import STEPS, numpy_of, parameters_of, train, values_and_gradients

SGD_GRID = [
    dict(momentum=momentum, dampening=dampening, nesterov=nesterov, weight_decay=decay, maximize=maximize)
    for (momentum, dampening, nesterov), decay, maximize in itertools.product(
        [(0, 0, False), (0.9, 0, False), (0.9, 0.3, False), (0.9, 0, True)], [0, 0.1], [False, True]
    )
]
ADAM_GRID = [
    dict(amsgrad=amsgrad, weight_decay=decay, maximize=maximize, **others)
    for amsgrad, decay, maximize, others in itertools.product(
        [False, True], [0, 0.2], [False, True], [{}, dict(betas=(0.5, 0.8), eps=1e-3)]
    )
]
ROWS = (
    [(optim.SGD, references.sgd, dict(lr=0.1, **options)) for options in SGD_GRID]
    + [(optim.Adam, references.adam, dict(lr=0.1, **options)) for options in ADAM_GRID]
    + [(optim.AdamW, references.adamw, dict(lr=0.1, **options)) for options in ADAM_GRID]
)
SHAPES = [(3,), (), (0,), (5, 4), (2, 3, 2), (50, 60), (7,)]
TOLERANCES = {dynograd.float64: 1e-12, dynograd.float32: 3e-5, dynograd.float16: 2e-2, dynograd.bfloat16: 1e-1}


def row_id(row):
    options = ",".join(f"{name}={value}" for name, value in row[2].items() if name != "lr" and value)
    return f"{row[0].__name__}({options})"


def check(parameters, values, gradients, reference, options, tolerance=1e-12):
    for parameter, value, mine in zip(parameters, values, gradients):
        np.testing.assert_allclose(
            numpy_of(parameter), reference(value, mine, **options), rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize("row", ROWS, ids=row_id)
def test_steps_match_the_reference(row):
    make, reference, options = row
    values, gradients = values_and_gradients(SHAPES)
    parameters = parameters_of(values)
    train(make(parameters, **options), parameters, gradients)
    check(parameters, values, gradients, reference, options)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("row", [ROWS[9], ROWS[20], ROWS[-1]], ids=row_id)
def test_dtypes(row, dtype):
    make, reference, options = row
    values, gradients = values_and_gradients(SHAPES)
    parameters = parameters_of(values, dtype)
    optimizer = make(parameters, **options)
    train(optimizer, parameters, gradients)
    assert {parameter.dtype for parameter in parameters} == {dtype}
    for state in optimizer.state.values():
        assert {value.dtype for name, value in state.items() if name != "step"} == {dtype}
    check(parameters, values, gradients, reference, options, TOLERANCES[dtype])


@pytest.mark.parametrize("row", [ROWS[9], ROWS[20], ROWS[-1]], ids=row_id)
def test_parameters_without_gradient_are_left_alone(row):
    make, reference, options = row
    values, gradients = values_and_gradients(SHAPES)
    for number, mine in enumerate(gradients):
        for step in range(number % 3):
            mine[(step * 2 + number) % STEPS] = None
    gradients[3] = [None] * STEPS
    parameters = parameters_of(values)
    optimizer = make(parameters, **options)
    train(optimizer, parameters, gradients)
    check(parameters, values, gradients, reference, options)
    assert parameters[3] not in optimizer.state


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam, optim.AdamW])
def test_strided_and_complex_parameters(make):
    random = np.random.default_rng(1)
    options = dict(lr=0.1, weight_decay=0.1) | (dict(momentum=0.9) if make is optim.SGD else {})
    reference = {optim.SGD: references.sgd, optim.Adam: references.adam, optim.AdamW: references.adamw}[make]
    value = random.normal(size=(30, 20))
    steps = [random.normal(size=(30, 20)) for _ in range(3)]
    parameter = dynograd.tensor(value.T.copy()).t().requires_grad_()
    assert not parameter.detach().is_contiguous()
    parameter = parameter.detach().requires_grad_()
    train(make([parameter], **options), [parameter], [steps], range(3))
    np.testing.assert_allclose(numpy_of(parameter), reference(value, steps, **options), rtol=1e-12)

    pairs = random.normal(size=(4, 6, 2))
    steps = [random.normal(size=(6, 2)) for _ in range(3)]
    parameter = dynograd.tensor(pairs[0].view(np.complex128)[:, 0]).requires_grad_()
    train(make([parameter], **options), [parameter], [[step.view(np.complex128)[:, 0] for step in steps]], range(3))
    result = parameter.detach().numpy().view(np.float64).reshape(6, 2)
    np.testing.assert_allclose(result, reference(pairs[0], steps, **options), rtol=1e-12)


@pytest.mark.parametrize("row", [ROWS[9], ROWS[-1]], ids=row_id)
def test_many_small_parameters(row):
    make, reference, options = row
    values, gradients = values_and_gradients([(size % 13, size % 7) for size in range(60)] + [(40, 50)] * 20)
    for mine in gradients[::7]:
        mine[2] = None
    parameters = parameters_of(values)
    train(make(parameters, **options), parameters, gradients)
    check(parameters, values, gradients, reference, options)


def test_groups_have_their_own_options():
    values, gradients = values_and_gradients([(3,), (4,), (5,)])
    a, b, c = parameters = parameters_of(values)
    groups = [{"params": [a]}, {"params": b, "lr": 0.5, "momentum": 0}, {"params": [c], "weight_decay": 0.1}]
    optimizer = optim.SGD(groups, lr=0.1, momentum=0.9)
    train(optimizer, parameters, gradients)
    for number, options in enumerate(
        [dict(lr=0.1, momentum=0.9), dict(lr=0.5), dict(lr=0.1, momentum=0.9, weight_decay=0.1)]
    ):
        check(parameters[number : number + 1], values[number:], gradients[number:], references.sgd, options)


def test_options_may_change_between_steps():
    values, gradients = values_and_gradients([(3,), (4,)], steps=2)
    parameters = parameters_of(values)
    optimizer = optim.SGD(parameters, lr=0.1)
    train(optimizer, parameters, gradients, [0])
    optimizer.param_groups[0]["lr"] = 0.7
    optimizer.param_groups[0]["momentum"] = 0.9
    train(optimizer, parameters, gradients, [1])
    for parameter, value, mine in zip(parameters, values, gradients):
        np.testing.assert_allclose(numpy_of(parameter), value - 0.1 * mine[0] - 0.7 * mine[1])


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam])
def test_tensor_learning_rate(make):
    values, gradients = values_and_gradients([(3,)])
    result = []
    for lr in (0.1, dynograd.tensor(0.1, dtype=dynograd.float64), dynograd.tensor([0.1], dtype=dynograd.float64)):
        parameters = parameters_of(values)
        train(make(parameters, lr=lr), parameters, gradients)
        result.append(numpy_of(parameters[0]))
    np.testing.assert_array_equal(result[0], result[1])
    np.testing.assert_array_equal(result[0], result[2])


@pytest.mark.parametrize("flag", ["foreach", "fused", "capturable"])
def test_accepted_flags_change_nothing(flag):
    values, gradients = values_and_gradients([(3,), (4, 5)])
    results = []
    for options in ({}, {flag: True}):
        parameters = parameters_of(values)
        train(optim.AdamW(parameters, **options), parameters, gradients)
        results.append([numpy_of(parameter) for parameter in parameters])
    for element, other in zip(*results):
        np.testing.assert_array_equal(element, other)


def test_resumed_training_is_bit_exact():
    """Also when the packs differ from step to step."""
    values, gradients = values_and_gradients([(3,), (4, 5), (30,), (300,), ()] * 4, steps=6)
    for number, mine in enumerate(gradients):
        mine[number % 6] = None
    values = [value.astype(np.float32) for value in values]
    straight, resumed = parameters_of(values, dynograd.float32), parameters_of(values, dynograd.float32)
    train(optim.Adam(straight, lr=0.1), straight, gradients, range(6))
    first = optim.Adam(resumed, lr=0.1)
    train(first, resumed, gradients, range(3))
    second = optim.Adam(resumed, lr=0.5)
    second.load_state_dict(first.state_dict())
    train(second, resumed, gradients, range(3, 6))
    for element, other in zip(straight, resumed):
        np.testing.assert_array_equal(numpy_of(element), numpy_of(other))


@pytest.mark.parametrize(
    "make, options",
    [
        (optim.SGD, dict(momentum=0.9, weight_decay=0.1, nesterov=True)),
        (optim.SGD, dict(momentum=0.9, dampening=0.5, maximize=True)),
        (optim.Adam, dict(weight_decay=0.1)),
        (optim.Adam, dict(amsgrad=True, maximize=True)),
        (optim.AdamW, dict(weight_decay=0.1)),
    ],
)
def test_differentiable_step(make, options):
    """Values as of the plain step, and gradients through two steps against finite differences."""
    start, scales = np.array([1.0, -2.0, 0.5]), np.array([0.5, 2.0, -0.4])

    def run(lr, scale):
        p = dynograd.tensor(start, requires_grad=True).clone()
        optimizer = make([p], lr=lr, differentiable=True, **options)
        for step in range(2):
            p.grad = scale * (step + 1) + scale * scale
            optimizer.step()
        return (p**2).sum()

    lr = dynograd.tensor(0.1, dtype=dynograd.float64, requires_grad=True)
    scale = dynograd.tensor(scales, requires_grad=True)
    result = run(lr, scale)
    result.backward()

    def plain(lr, scales):
        reference = {optim.SGD: references.sgd, optim.Adam: references.adam, optim.AdamW: references.adamw}[make]
        gradients = [scales * (step + 1) + scales * scales for step in range(2)]
        return (reference(start, gradients, lr=lr, **options) ** 2).sum()

    np.testing.assert_allclose(result.item(), plain(0.1, scales), rtol=1e-12)
    tiny = 1e-6
    np.testing.assert_allclose(
        lr.grad.item(), (plain(0.1 + tiny, scales) - plain(0.1 - tiny, scales)) / (2 * tiny), rtol=1e-5
    )
    for number in range(3):
        up, down = scales.copy(), scales.copy()
        up[number] += tiny
        down[number] -= tiny
        np.testing.assert_allclose(
            scale.grad[number].item(), (plain(0.1, up) - plain(0.1, down)) / (2 * tiny), rtol=1e-5, atol=1e-7
        )


@pytest.mark.parametrize("options", SGD_GRID, ids=str)
def test_differentiable_steps_of_sgd_match_the_reference(options):
    values, gradients = values_and_gradients(SHAPES)
    parameters = [parameter.clone() for parameter in parameters_of(values)]
    optimizer = optim.SGD(parameters, lr=0.1, differentiable=True, **options)
    for step in range(STEPS):
        for parameter, mine in zip(parameters, gradients):
            parameter.grad = dynograd.tensor(mine[step], dtype=parameter.dtype)
        optimizer.step()
    check([parameter.detach() for parameter in parameters], values, gradients, references.sgd, dict(lr=0.1, **options))


FORMS = [
    ({"state": 3, "param_groups": []}, "expected 'state' to be a dict of dicts, got a int"),
    ({"state": {0: 3}, "param_groups": []}, "expected the state of parameter 0 to be a dict, got a int"),
    ({"state": {}, "param_groups": 3}, "expected 'param_groups' to be a list of dicts, got a int"),
    ({"state": {}, "param_groups": [3]}, "expected group 0 to be a dict with a list 'params', got 3"),
    ({"state": {}, "param_groups": [{"params": 3}]}, "expected group 0 to be a dict with a list 'params'"),
    ({"state": {}, "param_groups": [{"params": [{}]}]}, "expected numbers of parameters in group 0, got a dict"),
    ({"state": {}}, "expected a dict with 'state' and 'param_groups'"),
]


@pytest.mark.parametrize(("state", "words"), FORMS)
def test_states_that_no_optimizer_has_given(state, words):
    optimizer = dynograd.optim.SGD([dynograd.zeros(2)], lr=0.1)
    with pytest.raises(dynograd.errors.StateDictError, match=words):
        optimizer.load_state_dict(state)
