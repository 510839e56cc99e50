"""fully_shard: parameters, gradients and states in parts, and the numbers of one process."""

import tracemalloc

import numpy as np
import pytest

import dynograd
from dynograd import distributed, nn
from dynograd.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from dynograd.distributed.device_mesh import init_device_mesh
from dynograd.distributed.fsdp import FSDPModule, fully_shard
from dynograd.distributed.splits import splits_of, whole_of
from dynograd.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from dynograd.utils.checkpoint import checkpoint
from tests.distributed.test_data_parallel import ROWS as OF_DATA_PARALLEL
from tests.distributed.test_data_parallel import numbers

FULL = StateDictOptions(full_state_dict=True)


class Blocks(nn.Module):
    """Layers of which some are called again, one under a checkpoint, and one by its weight alone."""

    def __init__(self):
        super().__init__()
        self.first, self.again, self.kept = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 6)
        self.last, self.norm = nn.Linear(6, 2), nn.LayerNorm(6)

    def forward(self, x):
        x = self.first(x).tanh()
        for _ in range(3):
            x = self.norm(x + self.again(x).tanh())
        x = checkpoint(self.kept, x, use_reentrant=False)
        return self.last(x.sigmoid())


class Recursive(nn.Module):
    """Calls itself, as often as the batch has rows."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 4)

    def forward(self, x, state=None):
        state = self.cell(x[:1], state)
        return state.sum() if len(x) == 1 else self(x[1:], state) + state.square().sum()


class Mixed(nn.Module):
    """Parameters of several dtypes, a sparse gradient, and a buffer."""

    def __init__(self):
        super().__init__()
        self.words, self.scale = nn.Embedding(12, 4, sparse=True), nn.Parameter(dynograd.ones(3))
        self.register_buffer("shift", dynograd.ones(4))

    def forward(self, x):
        return (self.words((x[:, 0] * 10).long() % 12) + self.shift).square().mean() * self.scale.double().sum()

    def double(self):
        self.words.double()
        return self


ROWS = {
    **OF_DATA_PARALLEL,
    "blocks": (Blocks, lambda step, count, part: (numbers(step, count, 4)[part],), "ranks"),
    "recursive": (
        lambda: _Mean(Recursive()),
        lambda step, count, part: (numbers(step, count, 3, 4)[part],),
        "ranks",
    ),
    "mixed": (Mixed, lambda step, count, part: (numbers(step, count, 4)[part],), "ranks"),
}


class _Mean(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return sum(self.module(row) for row in x) / len(x)


def _divided(model, average="ranks", **options):
    for child in model.children():
        if any(True for _ in child.parameters()):
            if isinstance(child, nn.ModuleList):
                for layer in child:
                    fully_shard(layer, **options)
            else:
                fully_shard(child, **options)
    return fully_shard(model, average=average, **options)


def _trained(name, rank, size, divide, clip=None, optimizer=None):
    make, arguments, average = ROWS[name]
    dynograd.manual_seed(rank)  # the first process's parameters count
    model = make().double()
    wrapped = model if divide is None else divide(model, average)
    make_optimizer = optimizer or (lambda parameters: dynograd.optim.SGD(parameters, lr=0.05, momentum=0.9))
    optimizer = make_optimizer(model.parameters())
    count = 12
    ends = [count * place // size for place in range(size + 1)]
    if average != "ranks":
        ends = [*range(0, 2 * size, 2), count]
    part = slice(ends[rank], ends[rank + 1])
    norms = []
    for step in range(3):
        optimizer.zero_grad()
        loss = wrapped(*arguments(step, count, part))
        loss = loss if loss.ndim == 0 else loss.square().mean()
        loss.backward()
        if clip is not None:
            norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.1, clip).item())
        optimizer.step()
    without = [parameter.grad is None for parameter in model.parameters()]
    whole = [whole_of(parameter, splits_of(parameter)).detach().numpy() for parameter in model.parameters()]
    return whole, without, norms


WAYS = {
    "model": lambda model, average: fully_shard(model, average=average),
    "layers": _divided,
    "layers, kept, read ahead": lambda model, average: _divided(
        model, average, reshard_after_forward=False, prefetch=True
    ),
    "layers, read ahead": lambda model, average: _divided(model, average, prefetch=True),
}


# a weight that two modules use is divided with the module that has both
CASES = [(name, way) for name in ROWS for way in WAYS if name != "tied" or way == "model"]


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize(("name", "way"), CASES)
def test_ranks_train_as_one_process(name, way, ranks):
    expected, without, _ = _trained(name, 0, 1, None)
    results = distributed.simulate(
        lambda: _trained(name, distributed.get_rank(), ranks, WAYS[way]), ranks=ranks, timeout=20
    )
    for parameters, is_none, _ in results:
        assert sorted(is_none) == sorted(without)
        assert len(parameters) == len(expected)
        for parameter, reference in zip(parameters, expected):
            tolerance = 1e-12 if reference.dtype == np.float64 else 1e-6
            np.testing.assert_allclose(parameter, reference, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.0, float("inf")])
@pytest.mark.parametrize("name", ["branches", "words", "linear"])
def test_gradients_are_clipped_by_the_norm_of_one_process(name, norm_type):
    expected, _, norms = _trained(name, 0, 1, None, norm_type)
    results = distributed.simulate(
        lambda: _trained(name, distributed.get_rank(), 3, WAYS["layers"], norm_type), ranks=3
    )
    for parameters, _, of_rank in results:
        np.testing.assert_allclose(of_rank, norms, rtol=1e-12)
        for parameter, reference in zip(parameters, expected):
            np.testing.assert_allclose(parameter, reference, rtol=1e-11, atol=1e-12)


def test_micro_batches_travel_once():
    def program(divide):
        model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1)).double()
        dynograd.manual_seed(0)
        for parameter in model.parameters():
            nn.init.normal_(parameter)
        rank = distributed.get_rank() if divide else 0
        if divide:
            _divided(model)
            model.set_requires_gradient_sync(False)
        batches = numbers(0, 8, 3)
        for place in range(2):
            if divide:
                model.set_requires_gradient_sync(place == 1)
                model(batches[4 * rank + 2 * place : 4 * rank + 2 * place + 2]).square().sum().backward()
                if place == 0:
                    assert all(parameter.grad is None for parameter in model.parameters())
        if not divide:
            (model(batches).square().sum() / 2).backward()
        return [whole_of(parameter.grad, splits_of(parameter)).numpy() for parameter in model.parameters()]

    expected = distributed.simulate(program, False, ranks=1)[0]
    for gradients in distributed.simulate(program, True, ranks=2):
        for gradient, reference in zip(gradients, expected):
            np.testing.assert_allclose(gradient, reference, rtol=1e-12)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(9, 4)

    def forward(self, x):
        return x + self.table((x.detach()[:, 0] * 50).long() % 9)


def test_parts_over_one_dim_of_a_mesh_and_columns_over_the_other():
    def trained(size):
        dynograd.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 7), nn.GELU(), nn.Linear(7, 4), Words()).double()
        rank = 0
        if size > 1:
            mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
            parallelize_module(
                model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel(), "3.table": RowwiseParallel()}
            )
            fully_shard(model, mesh=mesh["dp"])
            rank, size = mesh.get_local_rank("dp"), 2
        optimizer = dynograd.optim.Adam(model.parameters(), lr=0.1)
        norms = []
        for step in range(3):
            optimizer.zero_grad()
            model(numbers(step, 4, 4)[rank * 4 // size : (rank + 1) * 4 // size]).square().mean().backward()
            norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.5).item())
            optimizer.step()
        states = get_state_dict(model, optimizer, options=FULL)
        return [value.numpy() for value in states[0].values()], norms

    expected, norms = distributed.simulate(trained, 1, ranks=1)[0]
    for values, of_rank in distributed.simulate(trained, 4, ranks=4):
        np.testing.assert_allclose(of_rank, norms, rtol=1e-9)
        for value, reference in zip(values, expected):
            np.testing.assert_allclose(value, reference, rtol=1e-8, atol=1e-10)


def test_states_of_two_processes_go_on_in_three_and_in_one():
    def begun():
        dynograd.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)).double()

    def steps(model, optimizer, rank, size, first, last):
        for step in range(first, last):
            optimizer.zero_grad()
            model(numbers(step, 6, 4)[6 * rank // size : 6 * (rank + 1) // size]).square().mean().backward()
            optimizer.step()

    def program(states, first, last):
        rank, size = distributed.get_rank(), distributed.get_world_size()
        model = begun() if size == 1 else _divided(begun())
        optimizer = dynograd.optim.AdamW(model.parameters(), lr=0.1)
        if states is not None:
            argument = states if rank == 0 else ({}, {"state": {}, "param_groups": []})
            options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
            set_state_dict(
                model, optimizer, model_state_dict=argument[0], optim_state_dict=argument[1], options=options
            )
        steps(model, optimizer, rank, size, first, last)
        return get_state_dict(model, optimizer, options=StateDictOptions(full_state_dict=True, cpu_offload=True))

    expected = distributed.simulate(program, None, 0, 6, ranks=1)[0]
    states = distributed.simulate(program, None, 0, 2, ranks=2)
    assert states[1] == ({}, {})
    states = distributed.simulate(program, states[0], 2, 4, ranks=3)[0]
    states = distributed.simulate(program, states, 4, 6, ranks=1)[0]
    assert [*states[0]] == [*expected[0]] and states[1]["param_groups"] == expected[1]["param_groups"]
    for name, value in expected[0].items():
        np.testing.assert_allclose(states[0][name].numpy(), value.numpy(), rtol=1e-10)
        for key in ("exp_avg", "exp_avg_sq"):
            np.testing.assert_allclose(
                states[1]["state"][name][key].numpy(), expected[1]["state"][name][key].numpy(), rtol=1e-9, atol=1e-15
            )


def test_a_process_keeps_its_part_alone():
    def program():
        model = nn.Sequential(*[nn.Linear(64, 64) for _ in range(7)], nn.Linear(64, 3))
        total = sum(parameter.numel() for parameter in model.parameters())
        _divided(model)
        optimizer = dynograd.optim.Adam(model.parameters())
        for _ in range(2):
            model(dynograd.ones(2, 64)).sum().backward()
            optimizer.step()
        gradients = sum(parameter.grad.numel() for parameter in model.parameters())
        states = sum(state["exp_avg"].numel() for state in optimizer.state.values())
        return total, sum(parameter.numel() for parameter in model.parameters()), gradients, states

    results = distributed.simulate(program, ranks=4)
    total = results[0][0]
    for counts in zip(*[result[1:] for result in results]):
        assert sum(counts) == total
        assert max(counts) - min(counts) <= 8  # one for each flat


def test_one_layer_is_whole_at_a_time():
    """Between forward and backward no layer is whole; together they have the memory of some, whatever their number is."""
    layers, size = 12, 200

    def peaks(**options):
        model = _divided(nn.Sequential(*[nn.Linear(size, size, bias=False) for _ in range(layers)]), **options)
        model(dynograd.ones(1, size)).sum().backward()  # kernels are there
        model.zero_grad()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            loss = model(dynograd.ones(1, size)).sum()
            kept, peak = (bytes - before for bytes in tracemalloc.get_traced_memory())
            loss.backward()
            whole = tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()
        return [bytes / (4 * size * size) for bytes in (kept, peak, whole)]

    kept, peak, whole = distributed.simulate(lambda: peaks(prefetch=False), ranks=1)[0]
    assert kept < 1 and peak < 3 and whole < layers + 5  # gradients of all layers are one process's here
    assert distributed.simulate(lambda: peaks(prefetch=False, reshard_after_forward=False), ranks=1)[0][0] > layers - 1


def test_modules_say_what_they_are():
    def program():
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        fully_shard(model)
        handle = model.unshard(async_op=True)
        handle.wait()
        model.reshard()
        with dynograd.no_grad():
            shape = tuple(model(dynograd.ones(2, 4)).shape)
        return isinstance(model, FSDPModule), isinstance(model[0], FSDPModule), shape

    assert distributed.simulate(program, ranks=2) == [(True, False, (2, 4))] * 2


def test_what_is_loaded_is_read_by_the_others():
    def program():
        model = fully_shard(nn.Linear(3, 1, bias=False))
        results = [model(dynograd.ones(3)).item() > 1e9]
        for factor in (1.0, 2.0):
            set_model_state_dict(model, {"weight": dynograd.full((1, 3), factor)}, options=FULL)
            results.append(model(dynograd.ones(3)).item())
        model.weight.data = model.weight.data * 2  # other memory
        model(dynograd.ones(3)).sum().backward()
        results.append(model(dynograd.ones(3)).item())
        return results

    assert distributed.simulate(program, ranks=2) == [[False, 3.0, 6.0, 12.0]] * 2


@pytest.mark.parametrize(
    "state, options, weight, keys",
    [
        ({"weight": [[3.0, 4.0]], "bias": [5.0]}, StateDictOptions(), [[3.0, 4.0]], ([], [])),
        ({"weight": [[3.0, 4.0]], "bias": [5.0]}, FULL, [[3.0, 4.0]], ([], [])),
        ({"bias": [5.0]}, StateDictOptions(strict=False), [[1.0, 1.0]], (["weight"], [])),
        ({"bias": [5.0]}, FULL, [[1.0, 1.0]], ([], [])),
        (
            {"bias": [5.0], "other": [1.0]},
            StateDictOptions(full_state_dict=True, strict=False),
            [[1.0, 1.0]],
            ([], ["other"]),
        ),
    ],
)
def test_states_need_no_group(state, options, weight, keys):
    model = nn.Linear(2, 1)
    nn.init.ones_(model.weight)
    result = set_model_state_dict(model, {name: dynograd.tensor(rows) for name, rows in state.items()}, options=options)
    assert model.weight.tolist() == weight and model.bias.tolist() == [5.0]
    assert (result.missing_keys, result.unexpected_keys) == keys


def test_states_without_a_group_reach_meta_and_are_of_the_only_process():
    with dynograd.device("meta"):
        model = nn.Linear(2, 1)
    set_model_state_dict(model, {"weight": dynograd.ones(1, 2), "bias": dynograd.zeros(1)}, options=FULL)
    assert model.weight.tolist() == [[1.0, 1.0]] and isinstance(model.weight, nn.Parameter)
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    assert get_state_dict(model, dynograd.optim.SGD(model.parameters()), options=options)[0].keys() == {
        "weight",
        "bias",
    }


def test_states_of_several_optimizers():
    model = nn.Linear(2, 1)
    optimizers = [dynograd.optim.Adam([model.weight]), dynograd.optim.SGD([model.bias], momentum=0.5)]
    model(dynograd.ones(2)).backward()
    for optimizer in optimizers:
        optimizer.step()
    weights, state = get_state_dict(model, optimizers)
    assert state["state"].keys() == {"weight", "bias"}
    assert [group["params"] for group in state["param_groups"]] == [["weight"], ["bias"]]
    state["param_groups"][1]["lr"] = 0.25
    state["state"]["bias"]["momentum_buffer"] = dynograd.tensor([7.0])
    set_state_dict(model, optimizers, model_state_dict=weights, optim_state_dict=state)
    assert [optimizer.param_groups[0]["lr"] for optimizer in optimizers] == [0.001, 0.25]
    assert optimizers[1].state[model.bias]["momentum_buffer"].item() == 7.0
    assert get_state_dict(model, [])[1] == {}


class Writing(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(dynograd.ones(2))

    def forward(self, x):
        with dynograd.no_grad():
            self.weight.mul_(2)
        return self.weight * x


def _of_two(program):
    return lambda: distributed.simulate(program, ranks=2)


def _shared():
    model = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    model[1].weight = model[0].weight
    fully_shard(model[0])
    return fully_shard(model)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            _of_two(lambda: fully_shard(fully_shard(nn.Linear(2, 2)))),
            ValueError,
            "this Linear has been divided already",
        ),
        (_of_two(lambda: fully_shard(3)), TypeError, "expected a Module, got int"),
        (_of_two(lambda: fully_shard(nn.Linear(2, 2), average="words")), ValueError, "got 'words'"),
        (_of_two(_shared), ValueError, "Linear.weight is a parameter of a divided module, too"),
        (
            _of_two(lambda: fully_shard(nn.Linear(2, 2), mesh=init_device_mesh("cpu", (1, 2)))),
            ValueError,
            "expected a mesh of one dim",
        ),
        (
            _of_two(lambda: fully_shard(nn.Linear(2, 2 + distributed.get_rank()))),
            RuntimeError,
            "Linear of rank 1 differs from that of rank 0",
        ),
        (
            _of_two(lambda: fully_shard(Writing())(dynograd.ones(2))),
            RuntimeError,
            "a forward pass has written into a parameter, one of Writing.weight",
        ),
        (
            _of_two(lambda: fully_shard(nn.Linear(2, 2)).double()(dynograd.ones(2).double())),
            RuntimeError,
            "numbers of float32 has become . of float64",
        ),
        (
            _of_two(lambda: dynograd.optim.Muon(fully_shard(nn.Linear(2, 2, bias=False)).parameters(), lr=0.1)),
            (TypeError, ValueError),
            "whole parameters|2D",
        ),
        (
            _of_two(lambda: dynograd.optim.Adafactor(fully_shard(nn.Linear(2, 2, bias=False)).parameters())),
            TypeError,
            "Adafactor looks at whole parameters",
        ),
        (lambda: StateDictOptions(flatten_optimizer_state_dict=True), NotImplementedError, "are not flattened"),
    ],
)
def test_what_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()
