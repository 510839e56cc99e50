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


def cumprod(torch, x, mask):
    return x.cumprod(1)


def cummax(torch, x, mask):
    return x.cummax(1)[0]


def logcumsumexp(torch, x, mask):
    return x.logcumsumexp(1)


def sort(torch, x, mask):
    return (x if mask is None else x.masked_fill(~mask, float("inf"))).sort(1)[0]


def topk(torch, x, mask):
    return (x if mask is None else x.masked_fill(~mask, float("-inf"))).topk(3, 1)[0].flatten(1)


def median(torch, x, mask):
    return x.median(1)[0] if mask is None else x.masked_fill(~mask, float("nan")).nanmedian(1)[0]


def std(torch, x, mask):
    if mask is None:
        return x.std(1)
    count = mask.sum(1, keepdim=True)
    distance = (x - (x * mask).sum(1, keepdim=True) / count) * mask
    return ((distance * distance).sum(1) / (count[:, 0] - 1)).sqrt()


def largest(torch, x, mask):
    return (x if mask is None else x.masked_fill(~mask, float("-inf"))).max(1)[0]


def attention_by_hand(torch, x, mask):
    scores = x @ x.transpose(1, 2)
    return (scores if mask is None else scores * mask.transpose(1, 2)) @ x


def last(torch, x, mask):
    return x[:, -1] if mask is None else x[torch.arange(x.shape[0]), mask[:, :, 0].sum(1) - 1]


def linear(torch, x, mask):
    return torch.nn.functional.linear(x, torch.ones(FEATURES, FEATURES))


def build(torch, op, nested=False):
    x, mask = operands(torch, nested)

    def step():
        return op(torch, x, mask)

    def result():
        result = step()
        if getattr(result, "is_nested", False):
            result = result.values()
        elif mask is not None and result.ndim == 3:
            result = result[mask[:, :, 0]]
        return fingerprint(result)

    return Workload(step, result)


_OPS = (
    gelu,
    add_rows,
    linear,
    softmax,
    mean,
    amax,
    cumsum,
    last,
    cumprod,
    cummax,
    logcumsumexp,
    sort,
    topk,
    median,
    std,
    largest,
    attention_by_hand,
)
for _op in _OPS:
    row(f"ragged.ops.{_op.__name__}", compiles=False)(lambda torch, _op=_op: build(torch, _op))
for _op in (gelu, add_rows, linear, softmax, mean, amax):  # torch.nested has no others of these
    row(f"ragged.ops.{_op.__name__}.nested", compiles=False)(lambda torch, _op=_op: build(torch, _op, nested=True))
