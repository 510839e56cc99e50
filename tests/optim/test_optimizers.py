"""SGD, Adam and AdamW against references in NumPy, and the machinery of Optimizer: groups, closures, hooks, errors."""

import itertools
import warnings

import numpy as np
import pytest
from optim import references

import dynograd
from dynograd import optim

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
STEPS = 5
TOLERANCES = {dynograd.float64: 1e-12, dynograd.float32: 3e-5, dynograd.float16: 2e-2, dynograd.bfloat16: 1e-1}


def row_id(row):
    options = ",".join(f"{name}={value}" for name, value in row[2].items() if name != "lr" and value)
    return f"{row[0].__name__}({options})"


def values_and_gradients(shapes, steps=STEPS, seed=0):
    random = np.random.default_rng(seed)
    values = [random.normal(size=shape) for shape in shapes]
    return values, [[random.normal(size=shape) for _ in range(steps)] for shape in shapes]


def train(optimizer, parameters, gradients, steps=range(STEPS)):
    for step in steps:
        for parameter, mine in zip(parameters, gradients):
            mine = mine[step]
            parameter.grad = None if mine is None else dynograd.tensor(mine).to(parameter.dtype)
        optimizer.step()


def parameters_of(values, dtype=dynograd.float64):
    return [dynograd.tensor(value).to(dtype).requires_grad_() for value in values]


def numpy_of(tensor):
    return tensor.detach().to(dynograd.float64).numpy()


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
    train(make([parameter], **options), [parameter], [[one.view(np.complex128)[:, 0] for one in steps]], range(3))
    found = parameter.detach().numpy().view(np.float64).reshape(6, 2)
    np.testing.assert_allclose(found, reference(pairs[0], steps, **options), rtol=1e-12)


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
    found = []
    for lr in (0.1, dynograd.tensor(0.1, dtype=dynograd.float64), dynograd.tensor([0.1], dtype=dynograd.float64)):
        parameters = parameters_of(values)
        train(make(parameters, lr=lr), parameters, gradients)
        found.append(numpy_of(parameters[0]))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.parametrize("flag", ["foreach", "fused", "capturable"])
def test_accepted_flags_change_nothing(flag):
    values, gradients = values_and_gradients([(3,), (4, 5)])
    found = []
    for options in ({}, {flag: True}):
        parameters = parameters_of(values)
        train(optim.AdamW(parameters, **options), parameters, gradients)
        found.append([numpy_of(parameter) for parameter in parameters])
    for one, other in zip(*found):
        np.testing.assert_array_equal(one, other)


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
    for one, other in zip(straight, resumed):
        np.testing.assert_array_equal(numpy_of(one), numpy_of(other))


# --- memory ------------------------------------------------------------------------------------------------------------------


def test_the_parameter_keeps_its_memory():
    parameters = parameters_of([np.ones(3), np.ones(4), np.ones((60, 60))])
    before = [parameter.data_ptr() for parameter in parameters]
    views = [parameter.detach().numpy() for parameter in parameters]
    optimizer = optim.Adam(parameters, lr=0.1)
    train(optimizer, parameters, [[np.ones(3)], [np.ones(4)], [np.ones((60, 60))]], [0])
    assert [parameter.data_ptr() for parameter in parameters] == before
    for view in views:
        np.testing.assert_allclose(view, 0.9)


def test_gradients_are_not_changed():
    parameters = parameters_of([np.ones(3), np.ones(4)])
    train(optim.AdamW(parameters, maximize=True, weight_decay=0.5), parameters, [[np.ones(3)], [np.ones(4)]], [0])
    for parameter in parameters:
        np.testing.assert_array_equal(parameter.grad.numpy(), 1)


@pytest.mark.parametrize("size", [3, 3000])
def test_backward_through_a_changed_weight_is_an_error(size):
    w, other = dynograd.ones(size, requires_grad=True), dynograd.ones(2, requires_grad=True)
    optimizer = optim.SGD([w, other], lr=0.1)
    loss = (w * w).sum() + other.sum()
    loss.backward(retain_graph=True)
    optimizer.step()
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation.*test_optimizers\.py"):
        loss.backward()


def test_parameters_that_share_memory_are_updated_in_turn():
    memory = dynograd.ones(4, dtype=dynograd.float64)
    parameters = [dynograd.nn.Parameter(memory), dynograd.nn.Parameter(memory)]
    train(optim.SGD(parameters, lr=0.1), parameters, [[np.ones(4)], [np.full(4, 2.0)]], [0])
    np.testing.assert_allclose(memory.numpy(), 1 - 0.1 - 0.2)


def test_state_replaced_by_the_user_is_used():
    values, gradients = values_and_gradients([(3,), (4,)], steps=3)
    parameters = parameters_of(values)
    optimizer = optim.SGD(parameters, lr=1.0, momentum=0.5)
    train(optimizer, parameters, gradients, [0, 1])
    before = [numpy_of(parameter).copy() for parameter in parameters]
    for parameter in parameters:
        optimizer.state[parameter]["momentum_buffer"] = dynograd.zeros_like(parameter)
    train(optimizer, parameters, gradients, [2])
    for parameter, value, mine in zip(parameters, before, gradients):
        np.testing.assert_allclose(numpy_of(parameter), value - mine[2])


def test_zero_grad():
    a, b = dynograd.ones(2, requires_grad=True), dynograd.ones(2, requires_grad=True)
    optimizer = optim.SGD([a, b])
    (a * a).sum().backward(create_graph=True)
    gradient = a.grad
    optimizer.zero_grad(set_to_none=False)
    assert a.grad is gradient and gradient.tolist() == [0, 0] and not gradient.requires_grad and b.grad is None
    optimizer.zero_grad()
    assert a.grad is None


def test_parameters_may_be_added_and_replaced_while_training():
    model = dynograd.nn.ParameterList([dynograd.nn.Parameter(dynograd.ones(3))])
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    added = dynograd.nn.Parameter(dynograd.ones(2))
    optimizer.add_param_group({"params": added, "lr": 0.2})
    model[0].grad, added.grad = dynograd.ones(3), dynograd.ones(2)
    optimizer.step()
    np.testing.assert_allclose(model[0].detach().numpy(), 0.9, rtol=1e-6)
    np.testing.assert_allclose(added.detach().numpy(), 0.8, rtol=1e-6)
    added.data = dynograd.ones(5)
    added.grad = dynograd.ones(5)
    with pytest.raises(ValueError, match=r"exp_avg has shape \(2,\), but its parameter has shape \(5,\).*zero_grad"):
        optimizer.step()
    del optimizer.state[added]
    optimizer.step()
    np.testing.assert_allclose(added.detach().numpy(), 0.8, rtol=1e-6)


def test_a_gradient_of_another_shape_is_an_error():
    w = dynograd.ones(300, requires_grad=True)
    w.grad = dynograd.ones(300)
    w.data = dynograd.ones(600)
    with pytest.raises(
        RuntimeError, match=r"SGD\.step: gradient has shape \(300,\), but its parameter has shape \(600,\)"
    ):
        optim.SGD([w]).step()


# --- step --------------------------------------------------------------------------------------------------------------------


def test_closure_runs_with_recording_and_its_value_is_returned():
    w = dynograd.tensor([3.0], requires_grad=True)
    optimizer = optim.SGD([w], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    with dynograd.no_grad():
        assert optimizer.step(closure).item() == 9
    np.testing.assert_allclose(w.detach().numpy(), 3 - 0.6, rtol=1e-6)
    assert optimizer.step() is None


def test_step_records_nothing():
    w = dynograd.ones(2, requires_grad=True)
    w.grad = dynograd.ones(2, requires_grad=True) * 2
    optim.Adam([w]).step()
    assert w.is_leaf and w.requires_grad


def test_training_learns():
    dynograd.manual_seed(1)
    x = dynograd.randn(64, 3)
    y = x @ dynograd.tensor([[1.0], [-2.0], [0.5]]) + 0.3
    w, b = dynograd.zeros(3, 1, requires_grad=True), dynograd.zeros(1, requires_grad=True)
    optimizer = optim.Adam([w, b], lr=0.1)
    for _ in range(200):
        optimizer.zero_grad()
        ((x @ w + b - y) ** 2).mean().backward()
        optimizer.step()
    np.testing.assert_allclose(w.detach().numpy()[:, 0], [1, -2, 0.5], atol=1e-2)
    np.testing.assert_allclose(b.item(), 0.3, atol=1e-2)


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


# --- subclasses --------------------------------------------------------------------------------------------------------------


class OwnStep(optim.Optimizer):
    def __init__(self, params, lr=optim.optimizer.required):
        super().__init__(params, dict(lr=lr))

    @dynograd.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["step"] = 0
                state["step"] += 1
                p.add_(p.grad, alpha=-group["lr"])


class OwnUpdate(optim.Optimizer):
    def __init__(self, params, lr=0.1):
        super().__init__(params, dict(lr=lr))

    def init_state(self, p, group):
        return {"sum": dynograd.zeros_like(p)}

    def update(self, p, g, state, group):
        state["sum"].add_(g)
        p.sub_(group["lr"] * state["sum"])


class CallsSuper(optim.SGD):
    def step(self, closure=None):
        return super().step(closure)


@pytest.mark.parametrize("make", [OwnStep, OwnUpdate, CallsSuper])
def test_subclasses(make):
    w = dynograd.ones(2, requires_grad=True)
    optimizer = make([w], lr=0.1)
    calls = []
    optimizer.register_step_pre_hook(lambda *args: calls.append("before"))
    optimizer.register_step_post_hook(lambda *args: calls.append("after"))
    w.grad = dynograd.ones(2)
    optimizer.step()
    np.testing.assert_allclose(w.detach().numpy(), 0.9, rtol=1e-6)
    assert calls == ["before", "after"]


def test_a_subclass_without_step_says_so():
    optimizer = optim.Optimizer([dynograd.ones(1, requires_grad=True)], {})
    optimizer.param_groups[0]["params"][0].grad = dynograd.ones(1)
    with pytest.raises(NotImplementedError, match=r"override step\(closure=None\), or update"):
        optimizer.step()
    optimizer.param_groups[0]["differentiable"] = True
    with pytest.raises(RuntimeError, match="differentiable=True is not supported"):
        optimizer.step()


def test_step_hooks():
    w = dynograd.ones(1, requires_grad=True)
    optimizer, other = optim.SGD([w]), optim.SGD([w])
    seen = []
    handle = optimizer.register_step_pre_hook(lambda one, args, kwargs: ((lambda: seen.append("new"),), kwargs))
    optimizer.register_step_post_hook(lambda one, args, kwargs: seen.append(one is optimizer))
    optimizer.step()
    assert seen == ["new", True]
    handle.remove()
    both = optim.optimizer.register_optimizer_step_pre_hook(lambda one, args, kwargs: seen.append("all"))
    other.step()
    assert seen[2:] == ["all"]
    both.remove()
    with optim.optimizer.register_optimizer_step_post_hook(lambda one, args, kwargs: seen.append("all after")):
        other.step()
    other.step()
    assert seen[3:] == ["all after"]
    optimizer.register_step_pre_hook(lambda *given: "wrong")
    with pytest.raises(RuntimeError, match=r"must return None or a tuple of \(new_args, new_kwargs\), but got 'wrong'"):
        optimizer.step()


# --- errors ------------------------------------------------------------------------------------------------------------------


def leaf(size=2):
    return dynograd.ones(size, requires_grad=True)


@pytest.mark.parametrize(
    "make, error, text",
    [
        (lambda: optim.SGD([]), ValueError, "empty parameter list.*only once"),
        (lambda: optim.SGD(leaf()), TypeError, r"iterable of Tensors or dicts, but got dynograd\.Tensor.*\[tensor\]"),
        (lambda: optim.SGD(dynograd.nn.Linear(1, 1)), TypeError, r"got the module Linear.*parameters\(\)"),
        (lambda: optim.SGD([leaf(), 3]), TypeError, "can only optimize Tensors, but one of the params is int"),
        (lambda: optim.SGD([{"params": {leaf()}}]), TypeError, "ordered collections.*list"),
        (lambda: optim.SGD([leaf() * 2]), ValueError, "can't optimize a non-leaf Tensor.*detach"),
        (
            lambda: optim.SGD([leaf()], lr=-1),
            ValueError,
            r"SGD: Invalid learning rate: -1\. Expected a number at least 0",
        ),
        (lambda: optim.SGD([leaf()], momentum=-1), ValueError, "Invalid momentum value: -1"),
        (lambda: optim.SGD([leaf()], weight_decay=-1), ValueError, "Invalid weight_decay value: -1"),
        (
            lambda: optim.SGD([leaf()], nesterov=True),
            ValueError,
            "Nesterov momentum requires a momentum and zero dampening",
        ),
        (
            lambda: optim.SGD([leaf()], lr=dynograd.ones(2)),
            ValueError,
            r"Tensor lr must be 1-element, got shape \(2,\)",
        ),
        (lambda: optim.SGD([leaf()], fused=True, foreach=True), RuntimeError, "cannot be `True` together"),
        (
            lambda: optim.SGD([leaf()], fused=True, differentiable=True),
            RuntimeError,
            "does not support `differentiable`",
        ),
        (lambda: optim.Adam([leaf()], lr=float("nan")), ValueError, "Adam: Invalid learning rate: nan"),
        (lambda: optim.Adam([leaf()], eps=-1), ValueError, "Invalid epsilon value: -1"),
        (
            lambda: optim.AdamW([leaf()], betas=(1.0, 0.9)),
            ValueError,
            r"AdamW: Invalid beta parameter at index 0: 1\.0.*\[0, 1\)",
        ),
        (lambda: optim.Adam([leaf()], betas=(0.9, -0.1)), ValueError, "Invalid beta parameter at index 1"),
        (lambda: optim.Adam([leaf()], weight_decay=-1), ValueError, "Invalid weight_decay value"),
        (
            lambda: optim.Adam([leaf()], lr=dynograd.ones(1), foreach=True),
            ValueError,
            "lr as a Tensor is not supported",
        ),
        (lambda: optim.SGD([leaf()]).add_param_group([leaf()]), TypeError, "param_group must be a dict"),
        (lambda: OwnStep([leaf()]), ValueError, "didn't specify a value of required optimization parameter lr"),
        (lambda: optim.SGD([("a", leaf()), leaf()]), ValueError, "Some param names are missing: 1 of 2"),
        (
            lambda: optim.SGD([("a", leaf())]).add_param_group({"params": [leaf()]}),
            ValueError,
            "cannot add param group without names",
        ),
    ],
)
def test_errors(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_a_parameter_belongs_to_one_group():
    w = leaf()
    with pytest.raises(ValueError, match="some parameters appear in more than one parameter group"):
        optim.SGD([{"params": [w]}, {"params": [w]}])
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optimizer = optim.SGD([w, w], lr=0.1)
    w.grad = dynograd.ones(2)
    optimizer.step()
    np.testing.assert_allclose(w.detach().numpy(), 0.8, rtol=1e-6)


def test_names_and_generators():
    model = dynograd.nn.Linear(2, 1)
    optimizer = optim.SGD(model.named_parameters())
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    assert [p is q for p, q in zip(optimizer.param_groups[0]["params"], model.parameters())] == [True, True]
    assert len(optim.SGD(model.parameters()).param_groups[0]["params"]) == 2
    retained = leaf() * 2
    retained.retain_grad()
    optim.SGD([retained])


def test_amsgrad_turned_on_late_says_so():
    w = leaf()
    w.grad = dynograd.ones(2)
    optimizer = optim.Adam([w])
    optimizer.step()
    optimizer.param_groups[0]["amsgrad"] = True
    with pytest.raises(KeyError, match=r"no max_exp_avg_sq.*state\.clear"):
        optimizer.step()


def test_complex_differentiable_says_so():
    p = dynograd.ones(2, dtype=dynograd.complex64)
    p.grad = dynograd.ones(2, dtype=dynograd.complex64)
    with pytest.raises(RuntimeError, match=r"complex parameters.*real view"):
        optim.Adam([p], differentiable=True).step()


def test_repr():
    assert repr(optim.SGD([leaf()], lr=0.5)) == (
        "SGD (\nParameter Group 0\n    dampening: 0\n    differentiable: False\n    foreach: None\n    fused: None\n    lr: 0.5\n"
        "    maximize: False\n    momentum: 0\n    nesterov: False\n    weight_decay: 0\n)"
    )
    assert repr(optim.optimizer.required) == "<required parameter>"


def test_no_warnings_in_a_step():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        w = leaf()
        w.grad = dynograd.tensor([np.inf, np.nan])
        optim.Adam([w], amsgrad=True).step()
    assert np.isnan(w.detach().numpy()).all()
