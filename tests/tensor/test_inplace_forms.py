"""The code that writes small tensors in place: its bits are those of the functional form, and what it does not know it leaves alone."""

import numpy
import pytest

import dynograd
from dynograd import tensor
from dynograd.errors import InplaceError, ShapeError
from tests.support.few_calls import few_or_many_calls  # noqa: F401

SHAPES = [(), (0,), (1,), (3, 5), (8, 64), (9, 57), (70, 80), (300, 300)]
FORMS = {
    "abs": lambda x, y, z: x.abs_(),
    "add": lambda x, y, z: x.add_(y),
    "addcdiv": lambda x, y, z: x.addcdiv_(y, z, value=0.3),
    "addcmul": lambda x, y, z: x.addcmul_(y, z, value=0.3),
    "clamp": lambda x, y, z: x.clamp_(-0.5, 0.7),
    "div": lambda x, y, z: x.div_(z),
    "lerp": lambda x, y, z: x.lerp_(y, 0.3),
    "mul": lambda x, y, z: x.mul_(0.1),
    "relu": lambda x, y, z: x.relu_(),
    "sigmoid": lambda x, y, z: x.sigmoid_(),
    "tanh": lambda x, y, z: x.tanh_(),
}
FUNCTIONS = {
    "addcdiv": lambda x, y, z: x.addcdiv(y, z, value=0.3),
    "addcmul": lambda x, y, z: x.addcmul(y, z, value=0.3),
    "clamp": lambda x, y, z: x.clamp(-0.5, 0.7),
    "lerp": lambda x, y, z: x.lerp(y, 0.3),
    "mul": lambda x, y, z: x * 0.1,
    "abs": lambda x, y, z: x.abs(),
    "add": lambda x, y, z: x + y,
    "div": lambda x, y, z: x / z,
    "relu": lambda x, y, z: x.relu(),
    "sigmoid": lambda x, y, z: x.sigmoid(),
    "tanh": lambda x, y, z: x.tanh(),
}


def bits(x):
    return numpy.ascontiguousarray(x.numpy()).tobytes()


def samples(shape, dtype=dynograd.float32):
    x, y, z = [dynograd.randn(shape, dtype=dtype) for _ in range(3)]
    if x.numel() > 3:
        x.view(-1)[0], x.view(-1)[1], x.view(-1)[2] = float("nan"), -0.0, float("-inf")
    return x, y, z.abs() + 0.5


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [dynograd.float32, dynograd.float64])
@pytest.mark.parametrize("name", FORMS)
def test_bits_are_those_of_the_functional_form(name, dtype, shape):
    x, y, z = samples(shape, dtype)
    expected = bits(FUNCTIONS[name](x, y, z))
    written = FORMS[name](x, y, z)
    assert written is x and bits(x) == expected


@pytest.mark.parametrize("name", FORMS)
def test_views_and_broadcast_operands(name):
    whole, y, z = samples((10, 64))
    before = whole.clone()
    row, other = dynograd.randn(64), dynograd.rand(64) + 0.5
    expected = bits(FUNCTIONS[name](whole[2:5].clone(), row, other))
    FORMS[name](whole[2:5], row, other)
    assert bits(whole[2:5]) == expected
    assert bits(whole[:2]) == bits(before[:2]) and bits(whole[5:]) == bits(before[5:])
    turned = before.clone().t()
    expected = bits(FUNCTIONS[name](turned.clone(), y.t(), z.t()))
    assert bits(FORMS[name](turned, y.t(), z.t())) == expected


@pytest.mark.parametrize("name", ["add", "div", "addcmul", "lerp"])
def test_what_would_grow_is_refused_and_nothing_is_written(name):
    x, y, z = dynograd.randn(1, 64), dynograd.randn(8, 64), dynograd.ones(8, 64)
    before = bits(x)
    with pytest.raises(ShapeError):
        FORMS[name](x, y, z)
    assert bits(x) == before


def test_memory_that_stands_at_several_indices_is_refused():
    row = dynograd.randn(64)
    for write in (
        lambda x: x.add_(1.0),
        lambda x: x.relu_(),
        lambda x: x.copy_(dynograd.ones(8, 64)),
        lambda x: x.tril_(),
    ):
        with pytest.raises(InplaceError, match="single memory location"):
            write(row.expand(8, 64))


def test_operands_that_lie_partly_in_the_memory_are_refused():
    x = dynograd.randn(9, 64)
    before = bits(x)
    for write in (
        lambda: x[1:].add_(x[:-1]),
        lambda: x[1:].copy_(x[:-1]),
        lambda: dynograd.add(x[:-1], 1.0, out=x[1:]),
        lambda: x.__setitem__(slice(1, 9), x[:-1]),
    ):
        with pytest.raises(InplaceError, match="single memory location"):
            write()
    assert bits(x) == before


@pytest.mark.parametrize("index", [0, slice(None), (slice(None), 1), (0, slice(1, 3))])
def test_a_number_of_the_memory_is_read_before_it_is_overwritten(index):
    x = dynograd.arange(12.0).view(3, 4)
    expected = x.numpy().copy()
    expected[index] = expected[0, 1].copy()
    x[index] = x[0, 1]
    assert x.tolist() == expected.tolist()
    w = dynograd.ones(3, 4, requires_grad=True)
    y = w * 2
    y[index] = y[0, 1]
    y.sum().backward()
    counts = dynograd.full((3, 4), 2.0)
    counts[index] = 0.0
    counts[0, 1] += 2.0 * (w.numel() - (counts != 0).sum().item())
    assert w.grad.tolist() == counts.tolist()


def test_other_views_of_the_whole_memory_are_no_part_of_it():
    """... also where NumPy and PyTorch count the step of a dim of size 1 differently."""
    x = dynograd.ones(1, 3)
    for twin in (x[0].unsqueeze(0), x[0][None], x.t().t(), x.squeeze(0).view(1, 3), x.as_strided((1, 3), (7, 1))):
        before = x.tolist()
        x.add_(twin)
        assert x.tolist() == twin.tolist() == [[2 * element for element in before[0]]]
        assert dynograd.add(x, 1.0, out=twin) is twin and x.tolist() == [[2 * element + 1 for element in before[0]]]


def of_kind(dtype):
    values = dynograd.arange(-6, 6).reshape(3, 4) / 2
    return (
        (values != 0)
        if dtype is dynograd.bool
        else values.abs().to(dtype)
        if dtype is dynograd.uint8
        else values.to(dtype)
    )


KINDS = [
    dynograd.bool, dynograd.uint8, dynograd.int8, dynograd.int32, dynograd.int64, dynograd.float16, dynograd.bfloat16, dynograd.float32,
    dynograd.float64, dynograd.complex64,
]  # fmt: skip


@pytest.mark.parametrize("target", KINDS, ids=str)
@pytest.mark.parametrize("source", KINDS, ids=str)
def test_copy_converts_as_to_does(source, target):
    argument = of_kind(source)
    created = dynograd.zeros(3, 4, dtype=target)
    assert created.copy_(argument) is created
    assert (created == argument.to(target)).all()
    assert (dynograd.zeros(2, 3, 4, dtype=target).copy_(argument) == argument.to(target)).all()


@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_zero_and_fill_of_every_dtype(dtype):
    x = of_kind(dtype)
    assert (x.zero_() == 0).all()
    assert (x.fill_(1) == 1).all()
    view = of_kind(dtype)[:, 1:3]
    assert (view.zero_() == 0).all()


def test_fill_of_numbers_that_are_not_the_dtype_s_own():
    assert (dynograd.zeros(3).fill_(float("inf")) == float("inf")).all()
    assert dynograd.zeros(3, dtype=dynograd.int64).fill_(2.9).tolist() == [2, 2, 2]


def test_a_slice_that_is_added_to_is_written_once():
    x = dynograd.zeros(8, 64)
    version = x._version
    x[2:5] += 1.0
    assert x.sum() == 192 and x._version == version + 2
    x[3] *= 4.0
    x[1, 2:4] -= 1.0
    assert x.sum() == 192 + 192 - 2


def test_a_view_that_is_another_one_is_written():
    x = dynograd.arange(8.0)
    view = x[2:4]
    x[4:6] = view
    assert x.tolist() == [0, 1, 2, 3, 2, 3, 6, 7]
    view.data = tensor([9.0, 8.0])
    x[2:4] = view
    assert x[2:4].tolist() == [9, 8]
    base = dynograd.arange(6.0)
    part = base[0:4][0:2]
    base[2:4] = part
    assert base.tolist() == [0, 1, 0, 1, 4, 5]


SIZES = [(3, 4), (30, 20), (20, 30), (120, 120)]


@pytest.mark.parametrize("shape", SIZES)
@pytest.mark.parametrize("diagonal", [-2, 0, 1, 50])
@pytest.mark.parametrize("dtype", [dynograd.float32, dynograd.float64, dynograd.int64, dynograd.float16])
def test_triangles(shape, diagonal, dtype):
    x = (dynograd.randn(shape) * 10).to(dtype)
    if dtype is dynograd.float32:
        x[0, 0], x[0, shape[1] - 1] = float("nan"), float("inf")
    argument = x.numpy()
    for name, reference in (("tril", numpy.tril), ("triu", numpy.triu)):
        expected = reference(argument, diagonal).tobytes()
        assert bits(getattr(x, name)(diagonal)) == expected
        assert bits(getattr(x.clone(), f"{name}_")(diagonal)) == expected
        turned = x.t().clone().t()
        assert bits(getattr(turned, f"{name}_")(diagonal)) == expected


@pytest.mark.parametrize("shape", [(4, 4), (3, 7), (7, 3), (3, 3, 3)])
def test_diagonals(shape):
    expected = numpy.zeros(shape)
    numpy.fill_diagonal(expected[: shape[1]], 2.5)
    assert dynograd.zeros(shape).fill_diagonal_(2.5).numpy().tolist() == expected.tolist()
    if len(shape) == 2:
        assert dynograd.zeros(shape[::-1]).t().fill_diagonal_(2.5).numpy().tolist() == expected.tolist()
        assert dynograd.zeros(shape).long().fill_diagonal_(2).sum() == 2 * min(shape)


REDUCTIONS = {"sum": numpy.add, "prod": numpy.multiply, "amax": numpy.maximum, "amin": numpy.minimum}


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("shape", [(4, 5), (30, 40)])
def test_scatter_reduce(shape, reduce, dim):
    x, src = samples(shape)[:2]
    index = dynograd.randint(0, shape[dim], shape)
    expected = x.numpy().copy()
    places = list(numpy.indices(shape))
    places[dim] = index.numpy()
    REDUCTIONS[reduce].at(expected, tuple(places), src.numpy())
    assert numpy.allclose(x.scatter_reduce(dim, index, src, reduce).numpy(), expected, equal_nan=True)
    assert bits(x.scatter_reduce(dim, index, src, reduce)) == bits(x.clone().scatter_reduce_(dim, index, src, reduce))
    leaf, written = x.clone().requires_grad_(), src.clone().requires_grad_()
    result = leaf.scatter_reduce(dim, index, written, reduce)
    assert result.requires_grad and bits(result.detach()) == bits(x.scatter_reduce(dim, index, src, reduce))


def test_numbers_written_at_an_index_are_recorded():
    x = dynograd.randn(4, 5, requires_grad=True)
    index = tensor([2, -1])
    created = x.index_fill(1, index, 7.0)
    created.sum().backward()
    assert created[:, 2].tolist() == [7.0] * 4 == created[:, 4].tolist()
    assert x.grad.sum(0).tolist() == [4, 4, 0, 4, 0]
    mask = x > 0
    x.grad = None
    x.masked_fill(mask, 0.0).sum().backward()
    assert (x.grad == (~mask).float()).all()


def test_masked_scatter_with_just_enough_and_too_few():
    for shape in ((4, 5), (30, 40)):
        x, mask = dynograd.zeros(shape), dynograd.rand(shape) > 0.5
        source = dynograd.randn(1, int(mask.sum()))
        expected = x.numpy().copy()
        expected[mask.numpy()] = source.numpy()[0]
        assert bits(x.masked_scatter_(mask, source)) == expected.tobytes()
        before = bits(x)
        with pytest.raises(Exception, match="masked_scatter"):
            x.masked_scatter_(mask, source[:, :-1].clone())
        assert bits(x) == before


def test_the_last_writer_is_named():
    def first(x):
        x.add_(1.0)

    def second(x):
        x.relu_()

    for write, name in ((first, "first"), (second, "second")):
        x = dynograd.randn(8, 64, requires_grad=True)
        y = x * 2
        z = (y * y).sum()
        for _ in range(2):
            first(y), second(y)
        write(y)
        with pytest.raises(RuntimeError, match=f"test_inplace_forms.py:[0-9]+ in {name}"):
            z.backward()
    y = dynograd.randn(8, 64, requires_grad=True) * 2
    z = (y * y).sum()
    with dynograd.no_grad():
        dynograd.add(y, 1.0, out=y)
    with pytest.raises(RuntimeError, match="in test_the_last_writer_is_named"):
        z.backward()


def test_a_writer_inside_the_library_is_not_named():
    y = dynograd.randn(8, 64, requires_grad=True) * 2
    z = (y * y).sum()
    with dynograd.no_grad():
        for _ in range(3):
            dynograd._foreach_add_([y], 1.0)
    with pytest.raises(RuntimeError, match="in test_a_writer_inside_the_library_is_not_named"):
        z.backward()


def test_every_write_counts():
    x, index = dynograd.randn(8, 64), tensor([1, 2])
    writes = [
        lambda: x.zero_(),
        lambda: x.copy_(dynograd.ones(8, 64)),
        lambda: x.scatter_(0, dynograd.zeros(8, 64, dtype=dynograd.int64), x.clone()),
        lambda: x.index_fill_(0, index, 1.0),
        lambda: x.tril_(),
        lambda: x[2:4].mul_(2.0),
        lambda: dynograd.add(x, 1.0, out=x),
    ]
    for count, write in enumerate(writes):
        write()
        assert x._version == count + 1


def test_recorded_writes_are_left_to_the_general_way():
    leaf = dynograd.randn(8, 64, requires_grad=True)
    with pytest.raises(InplaceError, match="leaf"):
        leaf.add_(1.0)
    plain, x = dynograd.zeros(8, 64), leaf * 1
    plain.add_(leaf)
    assert plain.requires_grad
    x.clamp_(min=0.0).sum().backward()
    assert (leaf.grad == (leaf > 0).float()).all()
    with dynograd.no_grad():
        assert leaf.add_(leaf).requires_grad and leaf.is_leaf
    with pytest.raises(RuntimeError, match="out="):
        dynograd.add(leaf, 1.0, out=dynograd.zeros(8, 64))


def test_out_of_another_shape_is_resized_and_not_broadcast():
    out = dynograd.zeros(8, 64)
    with pytest.warns(UserWarning, match="resized"):
        dynograd.add(dynograd.ones(64), dynograd.ones(64), out=out)
    assert out.shape == (64,)


def test_writes_after_and_inside_a_scope_of_autobatch():
    x, y = dynograd.ones(8, 64), dynograd.ones(8, 64)
    with dynograd.autobatch():
        waiting = x + y
        x.add_(5.0)
        y.zero_()
        assert waiting.sum() == 1024
    assert x.add_(1.0).sum() == 7 * 512 and y.sum() == 0


def test_writes_into_memory_that_nobody_else_has_are_counted_and_others_are_dated():
    x = dynograd.randn(8, 64)
    for count in range(1, 4):
        assert x.add_(1.0)._version == count
    weight = dynograd.randn(8, 64, requires_grad=True)
    for hold in (lambda: x, lambda: x[1:], lambda: x.detach(), lambda: x.t()):
        z = (weight[: len(hold())] * hold() if hold().shape[1] == 64 else weight.t() * hold()).sum()
        x.mul_(1.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.backward()
        del z
        assert x.mul_(1.0)._version == (count := count + 2)


@pytest.mark.parametrize("name", ["addcdiv", "addcmul", "lerp", "add"])
def test_operands_as_large_of_another_shape(name):
    x, y, z = dynograd.randn(1, 8, 64), dynograd.randn(8, 64), dynograd.rand(8, 64) + 0.5
    expected = bits(FUNCTIONS[name](x, y, z))
    assert bits(FORMS[name](x, y, z)) == expected
    before = bits(x)
    for wrong in (y.t().clone(), y.reshape(-1), y.reshape(1, 1, 8, 64)):
        with pytest.raises(ShapeError):
            FORMS[name](x, wrong, wrong)
    assert bits(x) == before


@pytest.mark.parametrize("dtype", [dynograd.float32, dynograd.float64, dynograd.bool])
@pytest.mark.parametrize("name", ["eq_", "ne_", "lt_", "le_", "gt_", "ge_"])
def test_operands_by_name(name, dtype):
    def made():
        return dynograd.tensor([0, 1, 1]).to(dtype)

    other = dynograd.tensor([1, 1, 0]).to(dtype)
    assert getattr(made(), name)(other=other).tolist() == getattr(made(), name)(other).tolist()
    for arguments, options, message in [
        ((), {}, "missing 1 required positional argument: 'other'"),
        ((other,), {"other": other}, "multiple values for argument 'other'"),
        ((other,), {"bogus": 1}, "unexpected keyword argument 'bogus'"),
    ]:
        with pytest.raises(TypeError, match=message):
            getattr(made(), name)(*arguments, **options)


def test_methods_as_functions_call_their_tensor_input():
    assert dynograd.zero_(input=dynograd.ones(2)).tolist() == [0, 0] and dynograd.fill_(
        input=dynograd.ones(2), value=3
    ).tolist() == [3, 3]
    assert dynograd.as_strided_(input=dynograd.ones(4), size=(2,), stride=(1,)).shape == (2,)
    assert dynograd.resize_as_(input=dynograd.ones(4), the_template=dynograd.ones(2)).shape == (2,)
    assert dynograd.unsafe_split(input=dynograd.ones(4), split_size=2)[1].shape == (2,)
