"""Indexing, views and scatters give what PyTorch gives: values, gradients, views and kinds of errors."""

import random

import numpy
import pytest
import torch

import dynograd

pytestmark = pytest.mark.filterwarnings("ignore")


def random_slice(rng, size):
    def bound():
        return rng.choice([None, rng.randint(-size - 1, size + 1)])

    return slice(bound(), bound(), rng.choice([None, 1, 2, 3]))


def random_pieces(rng, numbers, shape):
    """Pairs of (PyTorch's, ours) for each part of an index, sometimes a wrong one."""
    pieces = []
    dim, ellipsis, masked, length = 0, False, False, rng.choice([1, 2, 3])
    while dim < len(shape) and rng.random() < 0.85:
        size, kind = shape[dim], rng.random()
        if kind < 0.2:
            number = rng.randint(-size - (rng.random() < 0.05), size - 1 + (rng.random() < 0.05)) if size else 0
            pieces.append((number, number) if rng.random() < 0.7 else (torch.tensor(number), dynograd.tensor(number)))
        elif kind < 0.4:
            part = random_slice(rng, size)
            pieces.append((part, part))
        elif kind < 0.48:
            pieces.append((None, None))
            continue
        elif kind < 0.54 and not ellipsis:
            ellipsis = True
            pieces.append((Ellipsis, Ellipsis))
            dim += rng.randint(0, len(shape) - dim)
            continue
        elif kind < 0.58:
            flag = rng.random() < 0.7
            pieces.append((flag, flag))
            continue
        elif kind < 0.68:
            if masked and rng.random() < 0.5:
                continue
            depth = min(rng.choice([1, 1, 2]), len(shape) - dim)
            mask = numbers.random(tuple(side + (rng.random() < 0.02) for side in shape[dim : dim + depth])) < 0.5
            masked = True
            pieces.append((torch.from_numpy(mask), dynograd.from_numpy(mask) if rng.random() < 0.7 else mask))
            dim += depth
            continue
        else:
            form = rng.choice([(length,), (length,), (1,), (2, length), (length, 1), (0,)]) if size else (0,)
            array = numbers.integers(-size - (rng.random() < 0.02), size, form) if size else numpy.zeros(form, int)
            theirs = torch.from_numpy(array)
            ours = rng.choice([dynograd.from_numpy(array), array, array.tolist() if array.ndim == 1 else array])
            pieces.append((theirs, ours))
        dim += 1
    return pieces


def random_index(rng, numbers, shape):
    pieces = random_pieces(rng, numbers, shape)
    if len(pieces) == 1 and rng.random() < 0.5:
        return pieces[0]
    return tuple(element for element, _ in pieces), tuple(two for _, two in pieces)


def outcome(call):
    """The result, or the error."""
    try:
        return call()
    except Exception as error:
        return error


def same_kind_of_outcome(theirs, ours, about):
    """Whether both gave a result; an error of ours must be one that code written for theirs catches."""
    if isinstance(theirs, Exception) or isinstance(ours, Exception):
        assert isinstance(theirs, Exception), f"{about}: PyTorch accepts this, we raise {ours!r}"
        assert isinstance(ours, type(theirs)), f"{about}: PyTorch raises {theirs!r}, we give {ours!r}"
        return False
    return True


def equal(theirs, ours, about):
    assert tuple(theirs.shape) == tuple(ours.shape), about
    numpy.testing.assert_allclose(
        ours.detach().array, theirs.detach().numpy(), rtol=1e-12, atol=1e-12, err_msg=str(about)
    )


@pytest.mark.parametrize("seed", range(20))
def test_random_indices(seed):
    rng, numbers = random.Random(seed), numpy.random.default_rng(seed)
    for _ in range(100):
        shape = tuple(rng.randint(0 if rng.random() < 0.1 else 1, 5) for _ in range(rng.randint(0, 4)))
        values = numpy.asarray(numbers.normal(size=shape))
        x, y = torch.tensor(values, requires_grad=True), dynograd.tensor(values, requires_grad=True)
        turned = len(shape) > 1 and rng.random() < 0.3
        a, b = (x.transpose(0, 1), y.transpose(0, 1)) if turned else (x, y)
        for_torch, for_us = random_index(rng, numbers, tuple(a.shape))
        about = (tuple(a.shape), for_us)
        theirs, ours = outcome(lambda a=a, i=for_torch: a[i]), outcome(lambda b=b, i=for_us: b[i])
        if isinstance(ours, IndexError) and not isinstance(theirs, Exception) and not theirs.numel():
            continue  # where nothing is picked, PyTorch does not look at the indices
        if not same_kind_of_outcome(theirs, ours, about):
            continue
        equal(theirs, ours, about)
        weights = numpy.asarray(numbers.normal(size=tuple(theirs.shape)))
        theirs.backward(torch.tensor(weights))
        ours.backward(dynograd.tensor(weights))
        equal(x.grad, y.grad, about)
        check_assignment(x, y, for_torch, for_us, weights, turned, about)


def check_assignment(x, y, for_torch, for_us, weights, turned, about):
    if turned or not weights.size:
        return
    places = torch.arange(x.numel()).reshape(x.shape)[for_torch]
    if places.unique().numel() != places.numel():
        return
    for value in (weights, numpy.array(3.0), weights[None], weights[:1] if weights.ndim else weights):
        a, b = x.detach().clone(), y.detach().clone()
        a[for_torch] = torch.tensor(value)
        b[for_us] = dynograd.tensor(value)
        equal(a, b, about)


SCATTERS = [
    lambda x, index, src: x.gather(1, index),
    lambda x, index, src: x.scatter_add(1, index, src),
    lambda x, index, src: x.scatter_reduce(1, index, src, "sum", include_self=False),
    lambda x, index, src: x.scatter_reduce(1, index, src, "prod"),
    lambda x, index, src: x.scatter_reduce(1, index, src, "prod", include_self=False),
    lambda x, index, src: x.scatter_reduce(1, index, src, "mean"),
    lambda x, index, src: x.scatter_reduce(1, index, src, "mean", include_self=False),
    lambda x, index, src: x.scatter_reduce(1, index, src, "amax"),
    lambda x, index, src: x.scatter_reduce(1, index, src, "amin"),
    lambda x, index, src: x.index_add(1, index[0], src[0].expand(x.shape[0], -1), alpha=2),
    lambda x, index, src: x.index_select(1, index[0]),
    lambda x, index, src: x.take_along_dim(index, 1),
    lambda x, index, src: x.take(index),
    lambda x, index, src: x.put(index, src, True),
    lambda x, index, src: x.index_put((index, index), src, True),
]


@pytest.mark.parametrize("number", range(len(SCATTERS)))
def test_scatters_with_zeros_and_ties(number):
    function = SCATTERS[number]
    numbers = numpy.random.default_rng(number)
    for _ in range(40):
        rows, columns, width = numbers.integers(1, 5, 3)
        rows = max(rows, columns)
        x, src = numbers.integers(-2, 3, (rows, columns)) * 0.5, numbers.integers(-2, 3, (rows, width)) * 0.5
        index = numbers.integers(0, columns, (rows, width))
        theirs_in = [torch.tensor(each, requires_grad=True) for each in (x, src)]
        ours_in = [dynograd.tensor(each, requires_grad=True) for each in (x, src)]
        theirs = function(theirs_in[0], torch.tensor(index), theirs_in[1])
        ours = function(ours_in[0], dynograd.tensor(index), ours_in[1])
        equal(theirs, ours, index)
        weights = numbers.normal(size=tuple(theirs.shape))
        theirs.backward(torch.tensor(weights))
        ours.backward(dynograd.tensor(weights))
        for element, two in zip(theirs_in, ours_in, strict=True):
            if element.grad is not None:
                equal(element.grad, two.grad, (index, x, src))


# The same expression for both: `t` is the library, `x` a (3, 4, 5) tensor of it, `i` an int64 vector [0, 2, 0].
EXPRESSIONS = """
x.view(-1)
x.view(4, -1)
x.transpose(0, 1).reshape(-1, 3)
x.flatten(1)
x.flatten(0, 1)
x.unflatten(1, (2, -1))
x.squeeze()
x[None, :, None].squeeze((0, 1))
x[None, :, None].squeeze(0, 2)
x.count_nonzero(0, 1)
x.unsqueeze(-2)
x.permute(2, 0, 1)
x.movedim((0, 1), (2, 0))
x.swapaxes(0, -1)
x.mT
x[0].T
x.narrow(1, -3, 2)
x.select(-1, -1)
x.split(2, 1)
x.split([1, 2, 1], dim=1)
x.chunk(3, 2)
x.tensor_split(3, 2)
x.tensor_split((1, 3), dim=-1)
x.hsplit(2)
x.vsplit(3)
x.dsplit([1, 2])
x.unbind(1)
x.diagonal(1, 0, 2)
x.diagonal(-1, 2, 1)
x.unfold(2, 3, 2)
x.as_strided((3, 2), (2, 1), 5)
x.expand(2, -1, -1, 5)
x.repeat(2, 1, 1, 2)
x.tile(2)
x.tile((2, 1, 1, 2))
x.repeat_interleave(2)
x.repeat_interleave(i, 0)
x.repeat_interleave(3, dim=-1)
t.repeat_interleave(i)
x.flip(0, 2)
x[0].fliplr()
x.flipud()
x.roll(3)
x.roll((1, -2), (0, 2))
x.rot90(3, (0, 2))
t.cat([x, x], -1)
t.cat([x, i.view(3, 1, 1).expand(3, 4, 1)], 2)
t.cat([t.zeros(0), x])
t.stack([x, x], -2)
t.hstack([x, x])
t.vstack([x[0, 0], x[0]])
t.dstack([x[0], x[1]])
t.column_stack([x[0, 0], x[0].T])
t.block_diag(x[0], x[1, 0], x[0, 0, 0])
t.cartesian_prod(i, i)
t.combinations(i, 2)
t.combinations(x[0, 0], 3, with_replacement=True)
t.meshgrid(i, i, indexing="xy")
t.meshgrid(x[0, 0], x[0, :, 0], indexing="ij")
t.atleast_3d(x[0, 0])
t.atleast_2d(x[0, 0, 0])
x.tril()
x.triu(2)
x[0].diag(1)
x[0, 0].diag(-1)
x.diag_embed(1, 0, -1)
x[0].diagflat()
t.tril_indices(3, 4, 1)
t.triu_indices(4, 3, -1)
x[0, 0].outer(x[0, :, 0])
t.kron(x[0], x[0, 0])
x.index_fill(1, i, 2.5)
x.index_copy(1, i[:2], x[:, 2:])
x.index_reduce(1, i, x[:, 1:], "amax")
x.masked_select(x[0] > 3)
x.masked_scatter(x[0] > 3, x * 10)
x.nonzero()
x.nonzero(as_tuple=True)
t.argwhere(x[0] > 3)
i.unique(return_inverse=True, return_counts=True)
x.unique(dim=0)
t.unique_consecutive(t.cat([i, i, i[:1]]), return_inverse=True, return_counts=True)
t.searchsorted(x[0], x[1])
t.searchsorted(x[0, 0], 2.5, right=True)
t.bucketize(x, x[0, 0])
t.isin(i, i[:1])
i.bincount(minlength=5)
i.bincount(x[0, 0, :3])
t.nn.functional.one_hot(i)
x.select_scatter(x[0] * 2, 0, 1)
x.slice_scatter(x[:, :2] * 2, 1, 0, 4, 2)
x.diagonal_scatter(x[0, :3, :4].mT * 0, 0, 0, 2)
x.scatter(1, i.view(3, 1, 1), 9.0)
x.scatter(1, i.view(3, 1, 1), x[:, :1] * 2, reduce="add")
x.ravel()
x.view_as(x.permute(0, 2, 1))
x.view(-1).view(4, 15).T
""".strip().splitlines()

MISTAKES = """
x.view(7, -1)
x.view(-1, -1)
x.view(-2, 5)
x.transpose(0, 1).view(-1)
x.reshape(61)
x.flatten(2, 1)
x.squeeze(3)
x.unsqueeze(4)
x.transpose(0, 3)
x.permute(0, 1)
x.permute(0, 0, 1)
x.movedim((0, 0), (1, 2))
x.t()
x[0, 0].mT
x.narrow(1, 3, 3)
x.select(1, 4)
x.split(0)
x.split([1, 1])
x.chunk(0)
x.tensor_split(0)
x.hsplit(3)
x[0, 0].vsplit(1)
x[0, 0, 0].unbind()
x.unflatten(1, (3, 2))
x.diagonal(0, 1, 1)
x.unfold(1, 5, 1)
x.unfold(1, 2, 0)
x.as_strided((61,), (1,))
x.repeat(2, 2)
x.expand(2, 2, 2)
x.repeat_interleave(i[:2], 0)
x.flip(0, 0)
x.roll((1, 2), 0)
x.rot90(1, (0,))
t.cat([])
t.cat([x, x[0]])
t.cat([x, x[:, :2]])
t.cat([x[0, 0, 0]])
t.stack([])
t.stack([x, x[0]])
t.meshgrid(x)
t.cartesian_prod(x)
x[0, 0].tril()
x.diag()
x.outer(x)
x.gather(0, i)
x.gather(1, x)
x.scatter(1, i.view(3, 1, 1), i.view(3, 1, 1))
x.scatter_reduce(1, i.view(3, 1, 1), x, "median")
x.index_select(1, i.view(3, 1))
x.index_add(1, i + 2, x[:, :3])
x.index_copy(1, i, x[:, :2])
x.masked_select(i)
x.masked_scatter(x > 3, x[0])
x.take(i + 60)
x.put(i, x)
(i - 1).bincount()
t.nn.functional.one_hot(i - 1)
t.nn.functional.one_hot(i, 2)
t.searchsorted(x[0], x)
t.bucketize(x, x[0])
x.index_put((i,), i)
x.index_put((i,), x[0, 0, :2])
x.select_scatter(x, 0, 0)
x.index_fill(1, i, x[0])
""".strip().splitlines()


def evaluated(expression, library):
    x = library.arange(60.0).view(3, 4, 5)
    return eval(expression, {"t": library, "x": x, "i": library.tensor([0, 2, 0])})


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions(expression):
    theirs, ours = evaluated(expression, torch), evaluated(expression, dynograd)
    assert isinstance(theirs, tuple | list) == isinstance(ours, tuple | list)
    if not isinstance(theirs, tuple | list):
        theirs, ours = [theirs], [ours]
    assert len(theirs) == len(ours)
    for element, two in zip(theirs, ours, strict=True):
        assert str(element.dtype).removeprefix("torch.") == str(two.dtype).removeprefix("dynograd.")
        equal(element, two, expression)


@pytest.mark.parametrize("expression", MISTAKES)
def test_mistakes(expression):
    theirs, ours = outcome(lambda: evaluated(expression, torch)), outcome(lambda: evaluated(expression, dynograd))
    assert isinstance(theirs, Exception), f"PyTorch accepts this: {theirs}"
    assert isinstance(ours, type(theirs)), f"PyTorch raises {theirs!r}, we give {ours!r}"
