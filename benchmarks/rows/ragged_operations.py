"""Single ops on rows of very different lengths: ragged tensors beside padded ones with a mask, and beside torch.nested (`*.nested`)."""

from __future__ import annotations

import numpy

from benchmarks.rows.ragged import uneven
from benchmarks.workload import Workload, fingerprint, generator, normal, row

FEATURES = 128


def operands(torch, nested):
    """(x, mask): ragged, nested or padded (B, T, 128) of the same numbers, with the mask of what is real or None."""
    random = generator(31)
    lengths = uneven(random)
    values = normal(random, int(lengths.sum()), FEATURES)
    offsets = numpy.concatenate([[0], numpy.cumsum(lengths)])
    if hasattr(torch, "ragged_tensor"):
        return torch.RaggedTensor(torch.from_numpy(values), offsets=torch.from_numpy(offsets)), None
    if nested:
        return torch.nested.nested_tensor_from_jagged(torch.from_numpy(values), torch.from_numpy(offsets)), None
    real = numpy.arange(lengths.max()) < lengths[:, None]
    x = numpy.zeros((*real.shape, FEATURES), numpy.float32)
    x[real] = values
    return torch.from_numpy(x), torch.from_numpy(real[:, :, None])


def gelu(torch, x, mask):
    return torch.nn.functional.gelu(x)


def add_rows(torch, x, mask):
    return x + torch.ones(x.shape[0], 1, FEATURES)


def softmax(torch, x, mask):
    return torch.softmax(x if mask is None else x.masked_fill(~mask, float("-inf")), 1)


def mean(torch, x, mask):
    return x.mean(1) if mask is None else (x * mask).sum(1) / mask.sum(1)


def amax(torch, x, mask):
    return (x if mask is None else x.masked_fill(~mask, float("-inf"))).amax(1)


def cumsum(torch, x, mask):
    return x.cumsum(1)


def last(torch, x, mask):
    return x[:, -1] if mask is None else x[torch.arange(x.shape[0]), mask[:, :, 0].sum(1) - 1]


def linear(torch, x, mask):
    return torch.nn.functional.linear(x, torch.ones(FEATURES, FEATURES))


def build(torch, op, nested=False):
    x, mask = operands(torch, nested)

    def step():
        return op(torch, x, mask)

    def result():
        found = step()
        if getattr(found, "is_nested", False):
            found = found.values()
        elif mask is not None and found.ndim == 3:
            found = found[mask[:, :, 0]]
        return fingerprint(found)

    return Workload(step, result)


for _op in (gelu, add_rows, linear, softmax, mean, amax, cumsum, last):
    row(f"ragged.ops.{_op.__name__}", compiles=False)(lambda torch, _op=_op: build(torch, _op))
for _op in (gelu, add_rows, linear, softmax, mean, amax):  # torch.nested has no others of these
    row(f"ragged.ops.{_op.__name__}.nested", compiles=False)(lambda torch, _op=_op: build(torch, _op, nested=True))
