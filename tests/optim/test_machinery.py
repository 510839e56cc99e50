"""The machinery of Optimizer: memory, gradients, closures, hooks, subclasses and errors."""

import warnings

import numpy as np
import pytest

import dynograd
from dynograd import optim
from tests.optim.training import numpy_of, parameters_of, train, values_and_gradients

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
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation.*test_machinery\.py"):
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
    rows = dynograd.ones(2, 2, requires_grad=True) * 3
    a.grad = rows[0]  # a view with history, which stays
    optimizer.zero_grad(set_to_none=False)
    assert rows.tolist() == [[0, 0], [3, 3]] and rows.requires_grad
    assert a.grad.tolist() == [0, 0] and not a.grad.requires_grad


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


def test_modules_that_iterate_over_their_parameters():
    kept = dynograd.nn.ParameterList([dynograd.ones(2), dynograd.ones(3)])
    for params in (kept, [{"params": kept}], [("a", kept[0]), ("b", kept[1])], iter(kept)):
        optimizer = optim.SGD(params, lr=0.5)
        kept[0].grad = dynograd.ones(2)
        optimizer.step()
        assert optimizer.param_groups[0]["params"][1] is kept[1]
    assert kept[0].tolist() == [-1.0, -1.0]
    kept[0].grad = dynograd.full((2,), 3.0)
    assert dynograd.nn.utils.clip_grad_norm_(kept, 1.0).item() == pytest.approx(18**0.5)


# --- errors ------------------------------------------------------------------------------------------------------------------


def leaf(size=2):
    return dynograd.ones(size, requires_grad=True)


@pytest.mark.parametrize(
    "make, error, text",
    [
        (lambda: optim.SGD([]), ValueError, "empty parameter list.*only once"),
        (lambda: optim.SGD(leaf()), TypeError, r"iterable of Tensors or dicts, but got dynograd\.Tensor.*\[tensor\]"),
        (lambda: optim.SGD(dynograd.nn.Linear(1, 1)), TypeError, r"got the module Linear.*parameters\(\)"),
        (
            lambda: optim.SGD(dynograd.nn.Sequential(dynograd.nn.Linear(1, 1))),
            TypeError,
            r"one of the params is Linear \(number 0: .*\)\. Pass its parameters\(\)",
        ),
        (lambda: optim.SGD(3), TypeError, "iterable of Tensors or dicts, but got int. Pass a list of tensors"),
        (
            lambda: optim.SGD([{"params": dynograd.nn.Linear(1, 1)}]),
            TypeError,
            r"got the module Linear.*parameters\(\)",
        ),
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
        (lambda: optim.SGD([leaf()], lr="a"), TypeError, "SGD: Invalid learning rate: 'a' is a str. Expected a number"),
        (lambda: optim.RAdam([leaf()], lr=None), TypeError, "RAdam: Invalid learning rate: None is a NoneType"),
        (
            lambda: optim.Adam([leaf()], betas=0.9),
            ValueError,
            r"Adam: betas must be two numbers, got 0.9.*\(0.9, 0.999\)",
        ),
        (lambda: optim.NAdam([leaf()], betas=(0.9,)), ValueError, r"NAdam: betas must be two numbers, got \(0.9,\)"),
        (lambda: optim.Adam([leaf()], betas=(0.9, leaf(1))), ValueError, "must be either both floats or both Tensors"),
        (lambda: optim.SGD({"params": [leaf()]}), TypeError, r"got a dict with the keys \['params'\]. Pass \[group\]"),
        (lambda: optim.SGD({"weight": leaf()}), TypeError, r"keys \['weight'\]. Pass its items\(\) or values\(\)"),
        (lambda: optim.SGD(1 + x for x in ["a"]), TypeError, "unsupported operand"),
        (lambda: optim.SGD([{"lr": 1.0}]), KeyError, r"a parameter group has no 'params' \(its keys: \['lr'\]\)"),
        (
            lambda: optim.SparseAdam([dynograd.eye(2).to_sparse()]),
            ValueError,
            r"Sparse params at indices \[\[0, 0\]\].*to_dense",
        ),
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
