"""Writes that PyTorch refuses: into memory that stands at several indices, and over elements that are still to be read; sizes."""

import numpy
import pytest

import dynograd
from dynograd.ops.op import registry
from dynograd.tensor.inplace import REPEATED
from dynograd.tensor.tensor import Tensor
from tests.ops.arguments import converted, draw, tensors_of
from tests.ops.test_registry import rows_by_name

ones, zeros, arange = dynograd.ones, dynograd.zeros, dynograd.arange
INPLACE = sorted({entry.name for entry in registry.values() if entry.inplace})
FILLS = ["uniform_", "normal_", "random_", "bernoulli_", "exponential_"]
TWICE = "unsupported operation: more than one element of the written-to tensor refers to a single memory location"
PARTLY = "unsupported operation: some elements of the input tensor"


def a_call(name):
    """Arguments of a row of the op whose first is a Tensor with elements to spare, or None."""
    for row in rows_by_name().get(name, []):
        if row.name == name and row.function is None and row.inplace is not False:
            arguments = tensors_of(draw(row).map(lambda array, kind=row.dtypes[0]: converted(array, kind)))
            first = arguments.positional[0] if arguments.positional else None
            if isinstance(first, Tensor) and first.ndim and first.numel() > 1:
                return arguments
    return None


@pytest.mark.parametrize("name", [name for name in INPLACE if f"{name}_" not in REPEATED and a_call(name)])
def test_every_inplace_op_refuses_an_expanded_target(name):
    arguments = a_call(name)
    first, *others = arguments.positional
    target = first.flatten()[:1].clone().expand(first.shape)
    before = target.tolist()
    with pytest.raises(RuntimeError) as caught:
        getattr(target, f"{name}_")(*others, **arguments.keywords)
    assert TWICE in str(caught.value) and f"{name}_:" in str(caught.value), str(caught.value)
    assert str(tuple(first.shape)) in str(caught.value) and "clone()" in str(caught.value)
    assert target.tolist() == before


@pytest.mark.parametrize("name", FILLS)
def test_random_fills_refuse_an_expanded_target(name):
    with pytest.raises(RuntimeError, match=f"{name}: {TWICE}"):
        getattr(zeros(3, 1).expand(3, 3), name)()


def test_copies_refuse_an_expanded_target():
    target = zeros(3, 1).expand(3, 3)
    for write in (
        lambda: target.copy_(ones(3, 3)),
        lambda: target.__setitem__(slice(None), 1.0),
        lambda: target.__setitem__(0, 1.0),
        lambda: target[:2].__setitem__(slice(None), ones(2, 3)),
    ):
        with pytest.raises(RuntimeError, match=TWICE):
            write()
    assert target.sum().item() == 0


def test_one_value_may_be_written_twice():
    target = zeros(3, 1).expand(3, 3)
    assert target.fill_(2.0).sum().item() == 18
    assert target.zero_().sum().item() == 0
    target[0, 0] = 1.0
    assert target.sum().item() == 3
    assert target.masked_fill_(ones(3, 3).bool(), 4.0).sum().item() == 36
    assert zeros(1, 3).expand(1, 3).add_(1).sum().item() == 3  # stretched by nothing


@pytest.mark.parametrize("count", [6, 300_000])
def test_inputs_that_are_partly_overwritten_are_refused(count):
    def over(change):
        x = arange(float(count))
        before = x.clone()
        with pytest.raises(RuntimeError) as caught:
            change(x)
        assert PARTLY in str(caught.value) and f"({count - 1},)" in str(caught.value)
        assert "storage offset 0" in str(caught.value) and "storage offset 1" in str(caught.value)
        assert x.equal(before)

    over(lambda x: x[1:].add_(x[:-1]))
    over(lambda x: x[1:].mul_(x[:-1]))
    over(lambda x: x[:-1].sub_(x[1:]))
    over(lambda x: x[1:].copy_(x[:-1]))
    over(lambda x: x.__setitem__(slice(1, None), x[:-1]))
    over(lambda x: dynograd.add(x[1:], x[:-1], out=x[1:]))
    over(lambda x: dynograd.exp(x[:-1], out=x[1:]))
    over(lambda x: dynograd.mul(x[:-1], 2.0, out=x[1:]))


def test_a_square_and_its_transpose_are_refused():
    x = arange(9.0).view(3, 3)
    with pytest.raises(RuntimeError, match=PARTLY):
        x.add_(x.t())
    with pytest.raises(RuntimeError, match=PARTLY):
        x.add_(x[0])


def test_inputs_that_are_wholly_overwritten_or_untouched_are_fine():
    x = arange(6.0)
    assert x.add_(x).tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    assert x.add_(x.view(6)).tolist() == [0.0, 4.0, 8.0, 12.0, 16.0, 20.0]
    assert x[:3].add_(x[3:]).tolist() == [12.0, 20.0, 28.0]
    assert dynograd.mul(x, 0.5, out=x).tolist()[:3] == [6.0, 10.0, 14.0]
    x[0] = x[5]
    assert x[0].item() == x[5].item()
    x[:2], y = x[2:4], x[2:4].clone()
    assert x[:2].equal(y)


# --- sizes -------------------------------------------------------------------------------------------------------------------

MAKERS = [
    dynograd.zeros,
    dynograd.ones,
    dynograd.empty,
    dynograd.rand,
    dynograd.randn,
    lambda size: dynograd.full(size, 1.0),
]


@pytest.mark.parametrize("make", MAKERS)
def test_sizes_that_no_memory_holds(make):
    with pytest.raises(RuntimeError) as caught:
        make((2**40, 2**40))
    assert "overflow" in str(caught.value) and str(2**40) in str(caught.value)
    with pytest.raises(RuntimeError, match=r"negative.*\(2, -3\)"):
        make((2, -3))
    assert make((0, 2**40)).numel() == 0


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: dynograd.eye(-1), ["eye", "negative", "-1"]),
        (lambda: dynograd.eye(2**40), ["eye", "overflow", str(2**40)]),
        (lambda: dynograd.arange(2**62), ["arange", "overflow", str(2**62)]),
        (lambda: dynograd.linspace(0, 1, -2), ["linspace", "non-negative", "-2"]),
        (lambda: dynograd.linspace(0, 1, 2**62), ["linspace", "overflow", str(2**62)]),
        (lambda: dynograd.randperm(-2), ["randperm", "non-negative", "-2"]),
        (lambda: dynograd.randint(3, (2**40, 2**40)), ["randint", "overflow"]),
        (lambda: dynograd.range(0, 3, -1), ["range", "step sign", "start=0", "end=3", "step=-1"]),
        (lambda: ones(2).new_zeros(-1), ["negative", "(-1,)"]),
        (lambda: ones(2).new_empty((2**40, 2**40)), ["overflow"]),
        (lambda: ones(3).expand(-2, 3), ["expand", "-2"]),
        (lambda: ones(1).expand(2**40, 2**40), ["expand", "overflow", str(2**40)]),
        (lambda: ones(3).repeat(-1), ["repeat", "-1"]),
        (lambda: ones(3).repeat(2**40, 2**40), ["repeat", "overflow"]),
        (lambda: ones(3).tile((2**40, 2**40)), ["overflow"]),
        (lambda: ones(4).view(-2, 2), ["view", "-2"]),
        (lambda: ones(4).reshape(3, -1), ["reshape", "3", "4"]),
        (lambda: ones(4).unflatten(0, (3, 2)), ["unflatten", "3", "2", "4"]),
        (lambda: dynograd.outer(ones(1).expand(2**40), ones(1).expand(2**40)), ["overflow"]),
        (lambda: ones(1).expand(2**40, 1) + ones(1).expand(1, 2**40), ["add", "overflow", "1099511627776"]),
        (lambda: ones(1).expand(2**40, 1) * dynograd.arange(1).expand(1, 2**40), ["mul", "overflow", "1099511627776"]),
        (lambda: ones(2).narrow(0, 1, 5), ["narrow", "1", "5", "2"]),
        (lambda: ones(2).unfold(0, 3, 1), ["unfold", "3", "2"]),
        (lambda: dynograd.nn.functional.pad(ones(1, 4), (-3, -3)), ["pad", "-2"]),
        (lambda: dynograd.nn.Linear(-1, 2), ["negative", "-1"]),
        (lambda: dynograd.diag_embed(ones(2), 0, 0, 0), ["diag_embed", "0"]),
        (lambda: ones(2, 2)[2], ["index 2", "dimension 0", "size 2"]),
        (lambda: ones(2, 2)[0, -3], ["-3", "dimension 1", "size 2"]),
        (lambda: ones(2, 2)[0, 0, 0], ["too many indices", "2"]),
        (lambda: ones(3)[dynograd.tensor([0, 5])], ["5", "size 3"]),
        (lambda: ones(3)[ones(2).bool()], ["mask [2]", "[3]"]),
        (lambda: ones(3)["a"], ["indices", "'a'"]),
        (lambda: ones(3)[1.5], ["indices", "1.5"]),
        (lambda: ones(3).index_select(0, dynograd.tensor([3])), ["index_select", "3"]),
        (lambda: ones(3).gather(0, dynograd.tensor([-1])), ["gather", "-1", "3"]),
        (lambda: ones(3).scatter(0, dynograd.tensor([7]), 1.0), ["scatter", "7", "3"]),
        (lambda: ones(3).take(dynograd.tensor([3])), ["take", "3"]),
    ],
)  # fmt: skip
def test_sizes_and_indices_that_are_wrong(call, words):
    with pytest.raises((RuntimeError, IndexError, ValueError, TypeError)) as caught:
        call()
    missing = [word for word in words if word not in str(caught.value)]
    assert not missing, f"{missing} not in {caught.value!r}"
    assert type(caught.value) is not ValueError, "NumPy's own words"


def test_numbers_of_elements_are_counted_without_overflow():
    assert ones(1).expand(2**31, 2**20).numel() == 2**51
    assert numpy.prod(ones(1).expand(2**31, 2**20).shape, dtype=object) == 2**51
