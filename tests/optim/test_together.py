"""Parameters updated by one compiled call give what updates one by one give, whatever is replaced between steps."""

import copy

import numpy as np
import pytest

import dynograd
from dynograd import optim
from dynograd.optim import together
from tests.optim.training import numpy_of, parameters_of, train, values_and_gradients

MAKERS = {
    "SGD": lambda p: optim.SGD(p, lr=0.1, weight_decay=0.1),
    "SGD with momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.4, maximize=True),
    "Adam": lambda p: optim.Adam(p, lr=0.1, weight_decay=0.1),
    "AdamW with amsgrad": lambda p: optim.AdamW(p, lr=0.1, amsgrad=True),
    "RAdam": lambda p: optim.RAdam(p, lr=0.1, betas=(0.5, 0.7), weight_decay=0.1),
    "Adamax": lambda p: optim.Adamax(p, lr=0.1, weight_decay=0.1),
    "Adagrad": lambda p: optim.Adagrad(p, lr=0.1, lr_decay=0.1, maximize=True),
    "Adadelta": lambda p: optim.Adadelta(p, weight_decay=0.1),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.1, weight_decay=0.1),
    "RMSprop with momentum": lambda p: optim.RMSprop(p, lr=0.1, momentum=0.9),
    "centered RMSprop": lambda p: optim.RMSprop(p, lr=0.1, alpha=0.5, centered=True),
    "centered RMSprop with momentum": lambda p: optim.RMSprop(p, lr=0.1, alpha=0.5, centered=True, momentum=0.9),
    "Rprop": lambda p: optim.Rprop(p, lr=0.1, maximize=True),
    "NAdam": lambda p: optim.NAdam(p, lr=0.1, weight_decay=0.1, decoupled_weight_decay=True),
    "ASGD": lambda p: optim.ASGD(p, lr=0.1, lambd=0.1, t0=2, weight_decay=0.1),
}
SHAPES = [(30, 40), (40,), (), (5, 4, 3), (0,), (7000,)]


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


def plans(optimizer):
    return optimizer._together().plans.values()


def check_twice(make, change, monkeypatch, shapes=SHAPES, dtype=dynograd.float64, together_first=True, tolerance=1e-12):
    """Trains with `change(step, optimizer, parameters)` before each step, together and one by one."""
    results = []
    for one_by_one in (False, True):
        values, gradients = values_and_gradients(shapes)
        parameters = parameters_of(values, dtype)
        optimizer = make(parameters)
        if one_by_one:
            monkeypatch.setattr(type(optimizer), "rule", lambda self, group: None)
        for step in range(5):
            for p, mine in zip(parameters, gradients, strict=False):
                p.grad = dynograd.tensor(mine[step]).to(p.dtype)
            change(step, optimizer, parameters)
            optimizer.step()
            if step == 0 and not one_by_one and together_first:
                assert any(plan.batches for plan in plans(optimizer))
        results.append(
            [numpy_of(p) for p in parameters] + [numpy_of(v) for s in optimizer.state.values() for v in s.values()]
        )
        monkeypatch.undo()
    for mine, expected in zip(*results, strict=True):
        np.testing.assert_allclose(mine, expected, rtol=tolerance, atol=tolerance)


def replace_data(step, optimizer, parameters):
    if step == 2:
        parameters[0].data = parameters[0].detach().clone() * 2


def replace_state(step, optimizer, parameters):
    if step == 2:
        for p in parameters[::2]:
            for name, value in optimizer.state[p].items():
                optimizer.state[p][name] = value.clone()


def replace_states_data(step, optimizer, parameters):
    if step == 2:
        for state in optimizer.state.values():
            for name, value in state.items():
                if name != "grad_avg":  # its square stays below square_avg
                    value.data = value.detach().clone() + 1


def drop_state(step, optimizer, parameters):
    if step == 2:
        optimizer.state.pop(parameters[0], None)


def drop_gradients(step, optimizer, parameters):
    for number in range(step % 3, len(parameters), 2):
        parameters[number].grad = None


def late_gradient(step, optimizer, parameters):
    if step < 2:
        parameters[0].grad = parameters[-1].grad = None


def add_group(step, optimizer, parameters):
    if step == 2:
        more = parameters_of([np.ones((20, 20))])[0]
        more.grad = dynograd.ones(20, 20, dtype=dynograd.float64)
        parameters.append(more)
        optimizer.add_param_group({"params": [more], "lr": 0.5})


def append_to_group(step, optimizer, parameters):
    if step == 2:
        more = parameters_of([np.ones((20, 20))])[0]
        more.grad = dynograd.ones(20, 20, dtype=dynograd.float64)
        parameters.append(more)
        optimizer.param_groups[0]["params"].append(more)


def reorder(step, optimizer, parameters):
    optimizer.param_groups[0]["params"].reverse()


def change_options(step, optimizer, parameters):
    group = optimizer.param_groups[0]
    group["lr"] *= 0.5
    group["maximize"] = step == 3
    if step == 2 and "betas" in group:
        group["betas"] = (0.5, 0.8)


def load(step, optimizer, parameters):
    if step == 2:
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))


def strided_gradient(step, optimizer, parameters):
    g = parameters[0].grad
    parameters[0].grad = g.t().contiguous().t()
    assert not parameters[0].grad.is_contiguous()


def shared_gradient(step, optimizer, parameters):
    parameters[1].grad = parameters[0].grad[0]


def gradient_is_a_parameter(step, optimizer, parameters):
    parameters[1].grad = parameters[0].detach()[0]


def read_only(step, optimizer, parameters):
    parameters[0].grad.array.flags.writeable = False


CHANGES = [
    replace_data,
    replace_state,
    replace_states_data,
    drop_state,
    drop_gradients,
    late_gradient,
    add_group,
    append_to_group,
    reorder,
    change_options,
    load,
    strided_gradient,
    shared_gradient,
    gradient_is_a_parameter,
    read_only,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_is_replaced_between_steps_is_noticed(make, change, monkeypatch):
    check_twice(make, change, monkeypatch, together_first=change is not gradient_is_a_parameter)


def test_other_things_in_the_state_do_no_harm(monkeypatch):
    values, gradients = values_and_gradients(SHAPES)
    parameters = parameters_of(values)
    optimizer = optim.Adam(parameters, lr=0.1)
    train(optimizer, parameters, gradients, [0])
    for p in parameters:
        optimizer.state[p] = {"note": "mine", **optimizer.state[p]}
    train(optimizer, parameters, gradients, [1, 2])
    assert [plan.others for plan in plans(optimizer)] == [[]]
    assert optimizer.state[parameters[0]]["step"].item() == 3


def test_float32_in_float32(make, monkeypatch):
    check_twice(make, lambda *_: None, monkeypatch, dtype=dynograd.float32, tolerance=1e-5)


def test_one_plan_serves_all_steps(make, monkeypatch):
    values, gradients = values_and_gradients(SHAPES)
    parameters = parameters_of(values)
    optimizer = make(parameters)
    train(optimizer, parameters, gradients, [0])
    monkeypatch.setattr(together, "Plan", None)
    train(optimizer, parameters, gradients, [1, 2, 3])


def test_mixed_dtypes_and_layouts_in_one_group(make, monkeypatch):
    values, gradients = values_and_gradients(SHAPES * 2)
    kinds = [dynograd.float32, dynograd.float64, dynograd.float16] * 4
    parameters = [dynograd.tensor(value).to(kind).requires_grad_() for value, kind in zip(values, kinds, strict=True)]
    parameters[0] = dynograd.tensor(values[0].T.copy(), dtype=dynograd.float32).t().detach().requires_grad_()
    optimizer = make(parameters)
    train(optimizer, parameters, gradients)
    (plan,) = plans(optimizer)
    assert [len(batch.members) for batch in plan.batches] == [4, 3]  # float64 is met first
    assert {id(p) for p in plan.others} == {id(parameters[0])} | {
        id(p) for p in parameters if p.dtype is dynograd.float16
    }
    expected = [dynograd.tensor(value).to(kind).requires_grad_() for value, kind in zip(values, kinds, strict=True)]
    for p, mine in zip(expected, gradients, strict=True):
        train(make([p]), [p], [mine])
    for p, q in zip(parameters, expected, strict=True):
        tolerance = {dynograd.float64: 1e-12, dynograd.float32: 1e-4, dynograd.float16: 3e-2}[p.dtype]
        np.testing.assert_allclose(numpy_of(p), numpy_of(q), rtol=tolerance, atol=tolerance)


def test_versions_count_the_updates_of_parameters_with_a_gradient(make):
    values, gradients = values_and_gradients([(300,), (30,), (70_000,)])
    gradients[1] = [None] * 5
    parameters = parameters_of(values)
    before = [p._version for p in parameters]
    train(make(parameters), parameters, gradients, range(3))
    assert [p._version - start for p, start in zip(parameters, before, strict=True)] == [3, 0, 3]


def test_a_view_of_a_larger_memory_is_updated_and_stamped(make):
    memory = dynograd.ones(3, 2000, dtype=dynograd.float64)
    p = memory[1].detach().requires_grad_()
    other = memory[2].detach().requires_grad_()
    loss = (p * p).sum() + (other * other).sum()
    loss.backward(retain_graph=True)
    other.grad = None
    make([p, other]).step()
    assert (memory[0] == 1).all() and (memory[1] != 1).all() and (memory[2] == 1).all()
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation.*test_together\.py"):
        loss.backward()


def test_plans_of_groups_that_are_gone_are_dropped():
    values, gradients = values_and_gradients(SHAPES)
    parameters = parameters_of(values)
    optimizer = optim.Adam(parameters)
    for _ in range(3):
        train(optimizer, parameters, gradients, [0])
        optimizer.load_state_dict(optimizer.state_dict())
    train(optimizer, parameters, gradients, [0])
    assert len(plans(optimizer)) == 1
    assert "_plans" not in copy.deepcopy(optimizer).__dict__


def test_very_small_groups_are_updated_by_numpy():
    parameters = parameters_of([np.ones(3), np.ones(4)])
    optimizer = optim.Adam(parameters)
    train(optimizer, parameters, [[np.ones(3)], [np.ones(4)]], [0])
    assert not any(plan.batches for plan in plans(optimizer))


def test_a_wrong_gradient_is_an_error_also_later():
    values, gradients = values_and_gradients(SHAPES)
    parameters = parameters_of(values)
    optimizer = optim.SGD(parameters, lr=0.1, momentum=0.9)
    train(optimizer, parameters, gradients, [0, 1])
    before = [numpy_of(p).copy() for p in parameters]
    parameters[0]._grad = dynograd.ones(3, 3, dtype=dynograd.float64)
    with pytest.raises(
        ValueError, match=r"SGD.step: gradient has shape \(3, 3\), but its parameter has shape \(30, 40\)"
    ):
        optimizer.step()
    for p, was in zip(parameters, before, strict=True):
        np.testing.assert_array_equal(numpy_of(p), was)


def test_without_readable_objects_training_goes_one_by_one(make, monkeypatch):
    from dynograd.kernels.optim import optimizers_cpu

    monkeypatch.setattr(optimizers_cpu, "FIELDS", None)
    check_twice(make, drop_gradients, monkeypatch, together_first=False)


def test_results_do_not_depend_on_the_number_of_threads(make):
    values, gradients = values_and_gradients([(300, 400), (40,), (70_001,)])
    results, before = [], dynograd.get_num_threads()
    try:
        for count in (1, 2):
            dynograd.set_num_threads(count)
            parameters = parameters_of(values, dynograd.float32)
            train(make(parameters), parameters, gradients, range(3))
            results.append([numpy_of(p) for p in parameters])
    finally:
        dynograd.set_num_threads(before)
    for element, other in zip(*results, strict=True):
        np.testing.assert_array_equal(element, other)
