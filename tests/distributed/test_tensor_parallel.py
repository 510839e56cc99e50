"""Layers in parts over processes: outputs, gradients and steps of one process."""

import numpy as np
import pytest

import dynograd
from dynograd import distributed, nn
from dynograd.distributed.device_mesh import init_device_mesh
from dynograd.distributed.splits import splits_of, whole_of
from dynograd.distributed.tensor import Replicate, Shard
from dynograd.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from dynograd.nn.parallel import DistributedDataParallel


class Feedforward(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(6, 7), nn.Linear(7, 6)

    def forward(self, x):
        return self.down(nn.functional.gelu(self.up(x)))


class Attention(nn.Module):
    """Six heads, of which each process has some."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(12, 12) for _ in range(4))

    def forward(self, x):
        q, k, v = (layer(x).unflatten(-1, (-1, 2)).transpose(1, 2) for layer in (self.query, self.key, self.value))
        return self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Language(nn.Module):
    """Words, a block, and the logits of all words."""

    def __init__(self):
        super().__init__()
        self.words, self.norm, self.block, self.head = (
            nn.Embedding(11, 6, padding_idx=10),
            nn.LayerNorm(6),
            Feedforward(),
            nn.Linear(6, 11),
        )

    def forward(self, ids):
        x = self.words(ids)
        return self.head(x + self.block(self.norm(x)))


def _words(*shape):
    return dynograd.tensor(np.random.default_rng(1).integers(0, 11, shape))


def _numbers(*shape):
    return dynograd.tensor(np.random.default_rng(1).standard_normal(shape))


def _ragged_words():
    return dynograd.ragged_tensor([_words(length) for length in (3, 1, 4)])


# name: (module, its input, plan)
ROWS = {
    "columns": (lambda: nn.Linear(4, 7), lambda: _numbers(3, 4), ColwiseParallel(output_layouts=Replicate())),
    "columns without bias": (
        lambda: nn.Linear(4, 7, bias=False),
        lambda: _numbers(2, 3, 4),
        ColwiseParallel(output_layouts=Replicate()),
    ),
    "rows": (lambda: nn.Linear(7, 4), lambda: _numbers(3, 7), RowwiseParallel(input_layouts=Replicate())),
    "fewer columns than processes": (
        lambda: nn.Linear(4, 2),
        lambda: _numbers(3, 4),
        ColwiseParallel(output_layouts=Replicate()),
    ),
    "both": (Feedforward, lambda: _numbers(2, 5, 6), {"up": ColwiseParallel(), "down": RowwiseParallel()}),
    "ragged": (
        Feedforward,
        lambda: dynograd.ragged_tensor([_numbers(length, 6) for length in (3, 1, 4)]),
        {"up": ColwiseParallel(), "down": RowwiseParallel()},
    ),
    "heads": (
        Attention,
        lambda: _numbers(2, 5, 12),
        {"query": ColwiseParallel(), "key": ColwiseParallel(), "value": ColwiseParallel(), "out": RowwiseParallel()},
    ),
    "words by columns": (
        lambda: nn.Embedding(11, 6, padding_idx=3),
        lambda: _words(4, 5),
        ColwiseParallel(output_layouts=Replicate()),
    ),
    "words by rows": (lambda: nn.Embedding(11, 6, padding_idx=7), lambda: _words(4, 5), RowwiseParallel()),
    "fewer words than processes": (lambda: nn.Embedding(2, 6), lambda: _words(4, 5) % 2, RowwiseParallel()),
    "language": (
        Language,
        lambda: _words(2, 5),
        {
            "words": RowwiseParallel(),
            "block.*p": ColwiseParallel(),
            "block.down": RowwiseParallel(),
            "head": ColwiseParallel(output_layouts=Replicate()),
        },
    ),
    "ragged language": (
        Language,
        _ragged_words,
        {
            "words": RowwiseParallel(),
            "block.up": ColwiseParallel(),
            "block.down": RowwiseParallel(),
            "head": ColwiseParallel(output_layouts=Replicate()),
        },
    ),
    "sequence": (
        Language,
        lambda: _words(2, 5),
        {
            "words": RowwiseParallel(output_layouts=Shard(1)),
            "norm": SequenceParallel(),
            "block": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()),
            "block.up": ColwiseParallel(),
            "block.down": RowwiseParallel(output_layouts=Shard(1)),
            "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
        },
    ),
    "output in other parts": (
        lambda: nn.Sequential(nn.Linear(4, 7), nn.Linear(7, 5)),
        lambda: _numbers(6, 4),
        {
            "0": ColwiseParallel(output_layouts=Shard(0)),
            "1": RowwiseParallel(input_layouts=Shard(0), output_layouts=Shard(-1)),
            "": PrepareModuleOutput(output_layouts=Shard(-1), desired_output_layouts=Replicate()),
        },
    ),
}


def _trained(name, mesh):
    make, inputs, plan = ROWS[name]
    dynograd.manual_seed(0 if mesh is None else distributed.get_rank())  # the first process's parameters count
    model = make().double()
    if mesh is not None:
        parallelize_module(model, mesh, plan)
    optimizer = dynograd.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    outputs, gradients = [], []
    for _ in range(2):
        x = inputs()
        if x.is_floating_point():
            x = x.detach().requires_grad_()
        y = model(x)
        optimizer.zero_grad()
        (y.values() if y.is_nested else y).square().mean().backward()
        optimizer.step()
        outputs.append((y.values() if y.is_nested else y).detach().numpy())
        if x.grad is not None:
            gradients.append((x.grad.values() if x.grad.is_nested else x.grad).numpy())
    whole = [whole_of(parameter, splits_of(parameter)).detach().numpy() for parameter in model.parameters()]
    return outputs + gradients + whole


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("name", ROWS)
def test_parts_are_one_module(name, ranks):
    expected = _trained(name, None)
    for values in distributed.simulate(lambda: _trained(name, init_device_mesh("cpu", (ranks,))), ranks=ranks):
        assert len(values) == len(expected)
        for value, reference in zip(values, expected):
            np.testing.assert_allclose(value, reference, rtol=1e-12, atol=1e-12)


def test_a_process_has_its_part_alone():
    def program():
        model = nn.Sequential(nn.Embedding(100, 8), nn.Linear(8, 64), nn.Linear(64, 8))
        plan = {"0": RowwiseParallel(), "1": ColwiseParallel(), "2": RowwiseParallel()}
        parallelize_module(model, init_device_mesh("cpu", (4,)), plan)
        return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}

    assert distributed.simulate(program, ranks=4)[3] == {
        "0.weight": (25, 8),
        "1.weight": (16, 8),
        "1.bias": (16,),
        "2.weight": (8, 16),
        "2.bias": (8,),
    }


def test_parts_over_one_dim_of_a_mesh_and_batches_over_the_other():
    def trained(rank, size):
        dynograd.manual_seed(0)
        model = Feedforward().double()
        wrapped = model
        if size > 1:
            mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
            parallelize_module(model, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
            wrapped = DistributedDataParallel(model, process_group=mesh.get_group("dp"))
            rank, size = mesh.get_local_rank("dp"), 2
        optimizer = dynograd.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            wrapped(_numbers(4, 6)[rank * 4 // size : (rank + 1) * 4 // size]).square().mean().backward()
            optimizer.step()
        return [whole_of(parameter, splits_of(parameter)).detach().numpy() for parameter in model.parameters()]

    expected = trained(0, 1)
    for values in distributed.simulate(lambda: trained(distributed.get_rank(), 4), ranks=4):
        for value, reference in zip(values, expected):
            np.testing.assert_allclose(value, reference, rtol=1e-12, atol=1e-12)


def _of_two(plan, model=None, x=None):
    def program():
        module = parallelize_module(model or nn.Linear(2, 2), init_device_mesh("cpu", (2,)), plan)
        return module(dynograd.ones(2, 2) if x is None else x)

    return lambda: distributed.simulate(program, ranks=2)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (_of_two({"up": ColwiseParallel()}), ValueError, "Linear has no submodule 'up'"),
        (_of_two({"": 3}), TypeError, r"parallelize_plan\[''\] to be a ParallelStyle, got 3"),
        (_of_two(ColwiseParallel(), nn.ReLU()), NotImplementedError, "splits Linear and Embedding, got ReLU"),
        (_of_two(ColwiseParallel(), nn.Embedding(3, 2, max_norm=1.0)), NotImplementedError, "with max_norm"),
        (lambda: ColwiseParallel(output_layouts="all"), ValueError, r"output_layouts to be Shard\(dim\) or Replicate"),
        (
            _of_two(RowwiseParallel(), nn.Embedding(3, 2), dynograd.tensor([3])),
            IndexError,
            "outside the 3 rows of the table",
        ),
        (
            _of_two(ColwiseParallel(input_layouts=Shard(1)), None, dynograd.ragged_tensor([[[1.0, 2.0]]])),
            RuntimeError,
            "rows of different lengths cannot be cut along dim 1",
        ),
        (
            lambda: distributed.simulate(
                lambda: parallelize_module(nn.Linear(2, 2), init_device_mesh("cpu", (2, 1)), ColwiseParallel())
            ),
            ValueError,
            "expected a DeviceMesh of one dim",
        ),
    ],
)
def test_what_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()
