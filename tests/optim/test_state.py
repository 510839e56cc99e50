"""What an optimizer saves and loads: state_dict in PyTorch's layout, its hooks and errors, pickle and deepcopy."""

import copy
import pickle

import numpy as np
import pytest

import dynograd
from dynograd import optim
from tests.optim.training import numpy_of, parameters_of, train, values_and_gradients

MAKERS = [
    pytest.param(lambda p: optim.SGD(p, lr=0.1, momentum=0.9), id="SGD"),
    pytest.param(lambda p: optim.Adam(p, lr=0.1, amsgrad=True), id="Adam"),
    pytest.param(lambda p: optim.AdamW(p, lr=0.1), id="AdamW"),
]


def trained(make=lambda p: optim.Adam(p, lr=0.1), shapes=((3,), (4, 5)), steps=2, dtype=dynograd.float64):
    values, gradients = values_and_gradients(shapes, steps=6)
    parameters = parameters_of(values, dtype)
    optimizer = make(parameters)
    train(optimizer, parameters, gradients, range(steps))
    return optimizer, parameters, gradients


def test_layout():
    a, b, c = (dynograd.ones(size, requires_grad=True) for size in (2, 3, 4))
    optimizer = optim.Adam([{"params": [a]}, {"params": [b, c], "lr": 0.5}], amsgrad=True)
    a.grad = dynograd.ones(2)
    c.grad = dynograd.ones(4)
    optimizer.step()
    saved = optimizer.state_dict()
    assert list(saved) == ["state", "param_groups"]
    assert [group["params"] for group in saved["param_groups"]] == [[0], [1, 2]]
    assert [group["lr"] for group in saved["param_groups"]] == [0.001, 0.5]
    assert sorted(saved["state"]) == [0, 2]
    assert list(saved["state"][2]) == ["step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"]
    assert saved["state"][2]["exp_avg"].shape == (4,)
    step = saved["state"][0]["step"]
    assert step.dtype == dynograd.float32 and step.shape == () and step.item() == 1
    np.testing.assert_allclose(saved["state"][0]["exp_avg"].numpy(), 0.1, rtol=1e-6)


def test_sgd_has_state_only_with_momentum():
    w = dynograd.ones(2, requires_grad=True)
    w.grad = dynograd.ones(2)
    plain, heavy = optim.SGD([w]), optim.SGD([w], momentum=0.9)
    plain.step()
    heavy.step()
    assert plain.state_dict()["state"] in ({}, {0: {}})
    assert heavy.state_dict()["state"][0]["momentum_buffer"].tolist() == [1, 1]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("way", ["state_dict", "pickled state_dict", "pickle", "deepcopy"])
def test_training_goes_on_as_before(make, way):
    optimizer, parameters, gradients = trained(make)
    if way == "pickle":
        other, others = pickle.loads(pickle.dumps((optimizer, parameters)))
    elif way == "deepcopy":
        other, others = copy.deepcopy((optimizer, parameters))
    else:
        others = parameters_of([numpy_of(parameter) for parameter in parameters])
        other = make(others)
        state = optimizer.state_dict()
        other.load_state_dict(pickle.loads(pickle.dumps(state)) if way == "pickled state_dict" else state)
    assert [each is p for each, p in zip(other.param_groups[0]["params"], others)] == [True] * len(others)
    train(optimizer, parameters, gradients, range(2, 6))
    train(other, others, gradients, range(2, 6))
    for element, two in zip(parameters, others):
        np.testing.assert_array_equal(numpy_of(element), numpy_of(two))
    assert repr(optimizer) == repr(other)


def test_loading_copies():
    optimizer, parameters, gradients = trained()
    other = optim.Adam(parameters_of([np.ones(3), np.ones((4, 5))]))
    other.load_state_dict(optimizer.state_dict())
    before = other.state_dict()["state"][0]["exp_avg"].numpy().copy()
    train(optimizer, parameters, gradients, [2])
    np.testing.assert_array_equal(other.state_dict()["state"][0]["exp_avg"].numpy(), before)


def test_loaded_tensors_take_the_parameters_dtype_but_step_does_not():
    optimizer, _, _ = trained(dtype=dynograd.float64)
    half = parameters_of([np.ones(3), np.ones((4, 5))], dynograd.float16)
    other = optim.Adam(half)
    other.load_state_dict(optimizer.state_dict())
    state = other.state[half[0]]
    assert state["exp_avg"].dtype == state["exp_avg_sq"].dtype == dynograd.float16
    assert state["step"].dtype == dynograd.float32
    saved = optimizer.state_dict()
    for kept in saved["state"].values():
        kept["step"] = kept["step"].double()
    other.load_state_dict(saved)
    assert other.state[half[0]]["step"].dtype == dynograd.float64
    for group in saved["param_groups"]:
        group["fused"] = True
    other.load_state_dict(saved)
    assert other.state[half[0]]["step"].dtype == dynograd.float32


@pytest.mark.parametrize(
    "make", [optim.Adam, optim.AdamW, optim.NAdam, optim.RAdam, optim.Adagrad, optim.ASGD], ids=lambda one: one.__name__
)
def test_counters_have_the_default_dtype_unless_a_kernel_counts(make):
    for default in (dynograd.float32, dynograd.float64):
        dynograd.set_default_dtype(default)
        kernels = {"fused": True} if make in (optim.Adam, optim.AdamW, optim.Adagrad) else {"capturable": True}
        for options, expected in (({}, default), (kernels, dynograd.float32)):
            p = dynograd.ones(2, dtype=dynograd.float32, requires_grad=True)
            optimizer = make([p], lr=0.1, **options)
            p.grad = dynograd.ones(2, dtype=dynograd.float32)
            optimizer.step()
            assert optimizer.state[p]["step"].dtype is expected


def test_sparse_states_are_saved_and_loaded():
    table = dynograd.nn.Embedding.from_pretrained(dynograd.ones(4, 2), freeze=False, sparse=True)
    table(dynograd.tensor([1, 3])).sum().backward()
    optimizer = optim.SGD(table.parameters(), lr=0.1, momentum=0.9)
    optimizer.step()
    buffer = optimizer.state[table.weight]["momentum_buffer"]
    half = dynograd.ones(4, 2, dtype=dynograd.float16, requires_grad=True)
    other = optim.SGD([half], lr=0.1, momentum=0.9)
    other.load_state_dict(optimizer.state_dict())
    loaded = other.state[half]["momentum_buffer"]
    assert loaded.is_sparse and loaded.dtype is dynograd.float16 and buffer.is_sparse
    assert loaded.to_dense().tolist() == buffer.to_dense().tolist() == [[0, 0], [1, 1], [0, 0], [1, 1]]


LATER = {"foreach": None, "fused": None, "maximize": False, "capturable": False, "differentiable": False}
LATER |= {"decoupled_weight_decay": False, "momentum": 0, "centered": False}


@pytest.mark.parametrize("name", ["Adam", "NAdam", "RMSprop", "Rprop", "ASGD"])
def test_options_that_old_states_lack_are_off(name):
    make = getattr(optim, name)
    optimizer = make([dynograd.ones(2, requires_grad=True)], lr=0.1)
    saved = optimizer.state_dict()
    lacking = [option for option in LATER if saved["param_groups"][0].pop(option, "none") != "none"]
    optimizer.load_state_dict(saved)
    group = optimizer.param_groups[0]
    assert lacking and {option: group[option] for option in lacking} == {option: LATER[option] for option in lacking}


def test_old_states_and_numpy_arrays_are_understood():
    """`step` as a number, options that did not exist, arrays for tensors, momentum_buffer None."""
    w = dynograd.ones(2, requires_grad=True)
    w.grad = dynograd.ones(2)
    adam = optim.Adam([w], lr=0.1)
    adam.load_state_dict(
        {
            "state": {0: {"step": 3, "exp_avg": np.ones(2, np.float32), "exp_avg_sq": np.ones(2)}},
            "param_groups": [{"lr": 0.1, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0, "params": [0]}],
        }
    )
    adam.step()
    assert adam.state[w]["step"].item() == 4 and adam.state[w]["exp_avg_sq"].dtype == dynograd.float32
    assert adam.param_groups[0]["amsgrad"] is False
    sgd = optim.SGD([w], lr=0.1, momentum=0.9)
    saved = sgd.state_dict()
    sgd.load_state_dict({"state": {0: {"momentum_buffer": None}}, "param_groups": saved["param_groups"]})
    sgd.step()
    assert sgd.state[w]["momentum_buffer"].tolist() == [1, 1]


def test_adamw_stays_decoupled():
    w = dynograd.ones(2, requires_grad=True)
    adamw = optim.AdamW([w])
    adamw.load_state_dict(optim.Adam([w]).state_dict())
    assert adamw.param_groups[0]["decoupled_weight_decay"] is True


def test_names_of_parameters():
    w = dynograd.ones(2, requires_grad=True)
    named, plain = optim.SGD([("w", w)]), optim.SGD([w])
    assert named.state_dict()["param_groups"][0]["param_names"] == ["w"]
    named.load_state_dict(plain.state_dict())
    assert named.param_groups[0]["param_names"] == ["w"]
    plain.load_state_dict(named.state_dict())
    assert plain.param_groups[0]["param_names"] == ["w"]


def test_state_that_belongs_to_no_parameter_is_kept():
    optimizer, parameters, _ = trained()
    optimizer.state["note"] = {"seen": 5}
    other = optim.Adam(parameters)
    other.load_state_dict(optimizer.state_dict())
    assert other.state["note"] == {"seen": 5}


class Own(optim.Optimizer):
    """A user's optimizer, whose state is numbers and lists."""

    def __init__(self, params, lr):
        super().__init__(params, dict(lr=lr))

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p].setdefault("step", 0)
                self.state[p]["step"] += 1


def test_state_of_a_users_optimizer():
    w = dynograd.ones(2, requires_grad=True)
    optimizer = Own([w], lr=0.1)
    w.grad = dynograd.ones(2)
    optimizer.step()
    optimizer.state[w]["history"] = [dynograd.ones(3), (1, 2)]
    other = Own([w], lr=0.2)
    other.load_state_dict(optimizer.state_dict())
    assert other.param_groups[0]["lr"] == 0.1
    assert other.state[w]["step"] == 1 and other.state[w]["history"][1] == (1, 2)
    assert other.state[w]["history"][0].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "change, error, text",
    [
        (
            lambda d: d.pop("state"),
            RuntimeError,
            r"expected a dict with 'state' and 'param_groups', got the keys \['param_groups'\]",
        ),
        (lambda d: d["param_groups"].pop(), ValueError, "different number of parameter groups: expected 1, got 0"),
        (lambda d: d["param_groups"][0]["params"].pop(), ValueError, "group 0 has 2 parameters, the loaded one 1"),
        (
            lambda d: (d["param_groups"][0].pop("betas"), d["param_groups"][0].update(momentum=0.9)),
            RuntimeError,
            r"group 0 lacks the options \['betas'\] of Adam\w* and has \['momentum'\]: it was saved by another optimizer",
        ),
        (
            lambda d: d["state"][1].update(exp_avg=dynograd.ones(9)),
            ValueError,
            r"exp_avg of parameter 1 has shape \(9,\), but the parameter has shape \(4, 5\)",
        ),
    ],
)
def test_errors(change, error, text):
    optimizer, _, _ = trained()
    saved = copy.deepcopy(optimizer.state_dict())
    change(saved)
    before = optimizer.state_dict()
    with pytest.raises(error, match=text):
        optimizer.load_state_dict(saved)
    assert optimizer.state_dict()["param_groups"] == before["param_groups"]


def test_what_is_no_state_dict():
    optimizer, _, _ = trained()
    with pytest.raises(TypeError, match="expected what state_dict.. returned, a dict, got a list"):
        optimizer.load_state_dict([1])


def test_hooks():
    optimizer, _, _ = trained()
    seen = []
    optimizer.register_state_dict_pre_hook(lambda one: seen.append("pre"))
    optimizer.register_state_dict_pre_hook(lambda one: seen.append("first"), prepend=True)
    handle = optimizer.register_state_dict_post_hook(lambda one, saved: saved | {"extra": 1})
    optimizer.register_load_state_dict_pre_hook(
        lambda one, saved: {"state": {}, "param_groups": saved["param_groups"]} if "extra" in saved else None
    )
    optimizer.register_load_state_dict_post_hook(lambda one: seen.append("loaded"))
    saved = optimizer.state_dict()
    assert saved["extra"] == 1 and seen == ["first", "pre"]
    handle.remove()
    assert "extra" not in optimizer.state_dict()
    optimizer.load_state_dict(saved)
    assert len(optimizer.state) == 0 and seen[-1] == "loaded"


def test_an_old_optimizer_gets_the_options_that_it_lacks():
    optimizer = optim.SGD([dynograd.ones(2, requires_grad=True)], lr=0.1)
    state = dict(vars(optimizer), defaults={"lr": 0.1}, param_groups=[{"params": [], "lr": 0.1}])
    old = object.__new__(optim.SGD)
    old.__setstate__(state)
    assert old.defaults["differentiable"] is False
    assert {name: old.param_groups[0][name] for name in ("nesterov", "maximize", "differentiable", "foreach")} == {
        "nesterov": False, "maximize": False, "differentiable": False, "foreach": None
    }  # fmt: skip


def test_roots_of_numbers_and_tensors():
    from dynograd.optim.helpers import _dispatch_sqrt

    assert _dispatch_sqrt(9.0) == 3.0 and _dispatch_sqrt(dynograd.tensor([9.0, 16.0])).tolist() == [3.0, 4.0]
