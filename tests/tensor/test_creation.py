"""Making tensors."""

from __future__ import annotations

import numpy
import pytest

import dynograd as dg
from dynograd.errors import DeviceError, ShapeError


def test_tensor_takes_numbers_lists_arrays_and_tensors():
    assert dg.tensor(3).dtype is dg.int64 and dg.tensor(3.0).dtype is dg.float32 and dg.tensor(True).dtype is dg.bool
    assert dg.tensor([[1, 2.5]]).tolist() == [[1.0, 2.5]] and dg.tensor([]).dtype is dg.float32
    assert dg.tensor(numpy.float64(1)).dtype is dg.float64
    assert dg.tensor([dg.tensor(1.0), dg.tensor(2.0)]).tolist() == [1.0, 2.0]
    assert dg.tensor(1j).dtype is dg.complex64
    assert dg.tensor([1.9], dtype=dg.int64).tolist() == [1]


def test_tensor_copies_and_from_numpy_shares():
    array = numpy.zeros(2)
    copied, shared, same = dg.tensor(array), dg.from_numpy(array), dg.as_tensor(array)
    array[0] = 5
    assert copied.tolist() == [0, 0] and shared.tolist() == [5, 0] and same.tolist() == [5, 0]
    shared.numpy()[1] = 7
    assert array[1] == 7
    created = dg.ones(1)
    assert dg.as_tensor(created) is created and dg.as_tensor(created, dtype=dg.float64).dtype is dg.float64


def test_ragged_and_wrong_data_are_told():
    with pytest.raises(ValueError, match=r"different lengths \(2, 1\).*pad_sequence"):
        dg.tensor([[1, 2], [3]])
    with pytest.raises(TypeError, match="expected numbers, got str"):
        dg.tensor("abc")
    with pytest.raises(TypeError, match="expected numbers"):
        dg.tensor([None])
    with pytest.raises(TypeError, match=r"expected np.ndarray \(got list\)"):
        dg.from_numpy([1])


@pytest.mark.parametrize("create", [dg.asarray, dg.as_tensor])
def test_storages_are_shared_and_not_read_one_by_one(create, monkeypatch):
    x = dg.arange(6, dtype=dg.float32)
    monkeypatch.setattr(dg.UntypedStorage, "tolist", None)
    part = create(x.untyped_storage()[4:12], dtype=dg.uint8).view(dg.float32)
    part[0] = 9
    assert part.tolist() == [9, 2] and x[1] == 9
    assert create(dg.TypedStorage(wrap_storage=x.untyped_storage(), dtype=dg.float32)).dtype == dg.float32
    copy = dg.tensor(x.untyped_storage())
    assert copy.dtype == dg.uint8 and copy.numel() == 24 and not numpy.shares_memory(copy.numpy(), x.numpy())


def test_asarray_copies_on_demand():
    array = numpy.zeros(2)
    assert not numpy.shares_memory(dg.asarray(array, copy=True).numpy(), array)
    with pytest.raises(ValueError, match="can't alias"):
        dg.asarray([1.0], copy=False)


@pytest.mark.parametrize("make", [dg.zeros, dg.ones, dg.empty, dg.rand, dg.randn])
def test_sizes_come_as_numbers_or_a_tuple(make):
    assert make(2, 3).shape == make((2, 3)).shape == make([2, 3]).shape == make(dg.Size([2, 3])).shape == (2, 3)
    assert make(2, dtype=dg.float64, requires_grad=True).requires_grad and make(()).ndim == 0
    with pytest.raises(ShapeError, match=r"must not be negative, got \(-1,\)"):
        make(-1)
    with pytest.raises(TypeError, match="sizes must be ints"):
        make(2.5)
    with pytest.raises(DeviceError, match="no CUDA device is available"):
        make(2, device="cuda")


MAKERS = [dg.zeros, dg.ones, dg.empty, dg.rand, dg.randn]
MAKERS += [dg.ones(1).new_zeros, dg.ones(1).new_ones, dg.ones(1).new_empty]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_sizes_by_name(make):
    assert make(size=(2, 3)).shape == (2, 3) and make(size=[4], dtype=dg.float64).dtype is dg.float64
    with pytest.raises(
        TypeError, match=rf"{make.__name__}: got sizes twice: \(2,\) by position and size=\(3,\) by name"
    ):
        make(2, size=(3,))
    with pytest.raises(TypeError, match=rf"{make.__name__}: argument 'size' must be tuple of ints, got 3 of type int"):
        make(size=3)
    with pytest.raises(TypeError, match="bogus"):
        make(2, bogus=1)


def test_other_arguments_by_name():
    assert dg.arange(end=3).tolist() == [0, 1, 2] and dg.arange(end=5, step=2, start=1).tolist() == [1, 3]
    assert dg.randint(high=1, size=(2,)).tolist() == [0, 0] and dg.randint(low=3, high=4, size=(1,)).tolist() == [3]
    assert dg.randint_like(dg.ones(2), high=1).tolist() == [0, 0]
    x = dg.ones(1, dtype=dg.float64)
    assert x.new_full(size=(2,), fill_value=3).tolist() == [3, 3] and x.new_tensor(data=[5]).dtype is dg.float64
    assert dg.ones(2, 3).sum_to_size(size=(1, 3)).tolist() == [[2, 2, 2]]
    rows = [
        (lambda: dg.arange(), "arange: missing 1 required argument: 'end'"),
        (lambda: dg.randint(size=(2,)), "randint: missing the argument 'high'"),
        (lambda: dg.randint(3), "randint: missing the argument 'size'"),
        (lambda: dg.randint_like(x), "randint_like: missing the argument 'high'"),
        (lambda: x.new_full((2,), 3, names=None), "names"),
        (lambda: dg.ones(2, 3).sum_to_size(1, size=(1, 3)), "sum_to_size: got sizes twice"),
    ]
    for call, message in rows:
        with pytest.raises(TypeError, match=message):
            call()


def test_full_takes_the_dtype_of_its_value():
    assert dg.full((2,), 3).dtype is dg.int64 and dg.full((2,), 3.0).tolist() == [3.0, 3.0]
    assert dg.full((2,), True).dtype is dg.bool and dg.full((), dg.tensor(2.0)).item() == 2


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ((3,), [0, 1, 2]),
        ((1, 4), [1, 2, 3]),
        ((1, 6, 2), [1, 3, 5]),
        ((5, 0, -2), [5, 3, 1]),
        ((0, 1, 0.25), [0, 0.25, 0.5, 0.75]),
        ((0.0, 0.3, 0.1), [0, 0.1, 0.2]),
        ((2, 2), []),
    ],
)
def test_arange(args, expected):
    assert dg.arange(*args).tolist() == pytest.approx(expected)
    whole = all(isinstance(arg, int) for arg in args)
    assert dg.arange(*args).dtype is (dg.int64 if whole else dg.float32)


def test_arange_and_linspace_errors():
    with pytest.raises(RuntimeError, match="nonzero"):
        dg.arange(0, 3, 0)
    with pytest.raises(RuntimeError, match="inconsistent with step sign"):
        dg.arange(3, 0)
    with pytest.raises(RuntimeError, match="non-negative"):
        dg.linspace(0, 1, -1)


def test_linspace_logspace_eye():
    numpy.testing.assert_allclose(dg.linspace(-1, 1, 5).numpy(), numpy.linspace(-1, 1, 5), rtol=1e-6)
    numpy.testing.assert_allclose(dg.logspace(0, 2, 3).numpy(), [1, 10, 100], rtol=1e-6)
    assert dg.eye(2, 3).tolist() == [[1, 0, 0], [0, 1, 0]] and dg.linspace(0, 1, 1).tolist() == [0.0]


def test_like_and_new_forms():
    x = dg.ones(2, 3, dtype=dg.float64)
    for created in (
        dg.zeros_like(x),
        dg.ones_like(x),
        dg.empty_like(x),
        dg.full_like(x, 7),
        dg.rand_like(x),
        dg.randn_like(x),
    ):
        assert created.shape == (2, 3) and created.dtype is dg.float64
    assert dg.zeros_like(x, dtype=dg.int64).dtype is dg.int64
    assert x.new_zeros(4).dtype is dg.float64 and x.new_tensor([1, 2]).dtype is dg.float64
    assert x.new_full((2,), 3).tolist() == [3.0, 3.0] and x.new(2, 2).shape == (2, 2)


def test_legacy_constructors():
    assert dg.Tensor(2, 3).shape == (2, 3) and dg.Tensor([1, 2]).dtype is dg.float32 and dg.Tensor().numel() == 0
    assert dg.LongTensor([1, 2]).dtype is dg.int64 and dg.FloatTensor(2).shape == (2,)
    assert isinstance(dg.ones(1), dg.FloatTensor) and not isinstance(dg.ones(1), dg.LongTensor)
    assert dg.ones(1).type() == "dynograd.FloatTensor" and dg.ones(1).type("torch.LongTensor").dtype is dg.int64
    assert dg.ones(1).type(dg.float64).dtype is dg.float64


def test_variables_are_leaves_over_the_same_values():
    """As in PyTorch, whose `Variable(y)` of a computed y knows nothing of its history."""
    x = dg.ones(1, requires_grad=True)
    variable = dg.autograd.Variable(x * 2)
    assert variable.is_leaf and not variable.requires_grad and variable.tolist() == [2.0]
    assert dg.autograd.Variable(x, requires_grad=True).requires_grad and dg.autograd.Variable().numel() == 0
    variable[0] = 5.0
    assert dg.autograd.Variable(variable).data_ptr() == variable.data_ptr()
    with pytest.raises(TypeError, match="has to be a tensor, but got list"):
        dg.autograd.Variable([1])
    with pytest.warns(UserWarning, match="volatile was removed"):
        dg.autograd.Variable(x, volatile=True)


def test_every_tensor_is_a_variable():
    assert isinstance(dg.ones(1), dg.autograd.Variable) and isinstance(
        dg.nn.Parameter(dg.ones(1)), dg.autograd.Variable
    )
    assert not isinstance(3, dg.autograd.Variable)
    assert issubclass(dg.nn.Parameter, dg.autograd.Variable) and not issubclass(int, dg.autograd.Variable)


def test_whole_numbers_of_fractional_bounds():
    """Bounds and steps are cut to whole numbers first, as in PyTorch."""
    assert dg.arange(0.0, -8.5, -4.5, dtype=dg.int64).tolist() == [0, -4]
    assert dg.arange(3.1, dtype=dg.int64).tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match="nonzero"):
        dg.arange(0, 3, 0.5, dtype=dg.int64)
    with pytest.raises(RuntimeError, match="0 -> inf"):
        dg.arange(0, float("inf"))
    assert dg.linspace(4.3, -3, 5, dtype=dg.int64).tolist() == [4, 2, 0, -1, -3]
    assert dg.logspace(0, 1.2, 2, dtype=dg.int64).tolist() == [1, 10]


def test_memory_orders_of_empty_tensors():
    assert dg.empty_permuted((2, 3, 5), (0, 2, 1)).stride() == (15, 1, 3)
    with pytest.raises(RuntimeError, match=r"empty_permuted.*\(2, 3\).*\(0, 0\)"):
        dg.empty_permuted((2, 3), (0, 0))
    created = dg.zeros(2, dtype=dg.float64).new_empty_strided((2, 3), (1, 2))
    assert (created.stride(), created.dtype) == ((1, 2), dg.float64)


HISTORY = [  # requires_grad of a leaf, a result and a detached tensor after asarray, and which of them are leaves
    ({}, (True, True, False), (True, False, True)),
    ({"copy": True}, (True, True, False), (False, False, True)),
    ({"dtype": dg.float64}, (True, True, False), (False, False, True)),
    ({"requires_grad": True}, (True, True, True), (True, False, True)),
    ({"requires_grad": False}, (False, False, False), (True, True, True)),
    ({"copy": True, "requires_grad": True}, (True, True, True), (True, False, True)),
]


@pytest.mark.parametrize(("options", "wanting", "leaves"), HISTORY)
def test_asarray_keeps_the_history_of_tensors(options, wanting, leaves):
    x = dg.ones(2, requires_grad=True)
    created = [dg.asarray(element, **options) for element in (x, x * 2, x.detach())]
    assert (
        tuple(element.requires_grad for element in created) == wanting
        and tuple(element.is_leaf for element in created) == leaves
    )
    assert x.requires_grad
    if options == {"copy": True}:
        created[1].sum().backward()
        assert x.grad.tolist() == [2, 2]


SIZES = [(), (3,), (2, 3), ((2, 3),), ([4],), (dg.Size([2, 0]),), (300, 300), ((),)]


@pytest.mark.parametrize("size", SIZES)
def test_small_and_large_are_made_alike(size):
    shape = tuple(size[0]) if size and not isinstance(size[0], int) else size
    for created, value in ((dg.zeros(*size), 0), (dg.ones(*size), 1), (dg.full(shape, 2.5), 2.5)):
        assert (
            created.shape == shape
            and created.dtype is dg.float32
            and not created.requires_grad
            and created.is_contiguous()
        )
        assert (created.numpy() == value).all() and created._base is None
    for kind in (dg.int64, dg.bool, dg.bfloat16, dg.complex64, dg.float8_e4m3fn):
        created = dg.ones(*size, dtype=kind, device="cpu")
        assert (
            created.shape == shape
            and created.dtype is kind
            and (created.float() == 1 if kind is not dg.complex64 else created == 1).all()
        )
    assert dg.zeros(*size, device=dg.device("cpu"), requires_grad=True).requires_grad
    assert dg.zeros(*size, device="meta").device.type == "meta"
    like = dg.zeros(*size, dtype=dg.int32)
    assert dg.ones_like(like).tolist() == dg.full_like(like, 1).tolist() == dg.ones(*size, dtype=dg.int32).tolist()
    with dg.device("meta"):
        assert dg.zeros(*size).device.type == dg.full(shape, 1).device.type == dg.arange(3).device.type == "meta"
        assert dg.zeros_like(like).device.type == "cpu"


def test_sizes_that_are_no_sizes_are_told_whatever_the_way():
    for wrong in ((2.0, 3), ("2",), (None,), ((2, 3.5),), ([[2, 3]],)):
        with pytest.raises(TypeError, match="sizes must be ints"):
            dg.zeros(*wrong)
    with pytest.raises(ShapeError, match="must not be negative"):
        dg.full((2, -1), 1.0)
    assert dg.zeros(dg.tensor(2), 3).shape == dg.zeros(numpy.int64(2), 3).shape == (2, 3)


def test_full_follows_the_default_dtype():
    assert dg.full((2,), True).dtype is dg.bool and dg.full((2,), 1).dtype is dg.int64
    assert dg.full((2,), 1j).dtype is dg.complex64 and dg.full((2,), dg.tensor(3.0)).tolist() == [3.0, 3.0]
    dg.set_default_dtype(dg.float64)
    try:
        assert dg.full((2,), 1.0).dtype is dg.zeros(2).dtype is dg.float64
    finally:
        dg.set_default_dtype(dg.float32)


def test_like_keeps_the_order_of_memory_and_parameters_give_tensors():
    pictures = dg.zeros(2, 3, 4, 5).contiguous(memory_format=dg.channels_last)
    assert dg.zeros_like(pictures).is_contiguous(memory_format=dg.channels_last)
    assert dg.zeros_like(dg.zeros(3, 4).t()).shape == (4, 3)
    created = dg.ones_like(dg.nn.Parameter(dg.zeros(2)))
    assert type(created) is dg.Tensor and not created.requires_grad and created.tolist() == [1, 1]


@pytest.mark.parametrize("bounds", [(5,), (2, 9), (2, 9, 3), (0,), (3, 3), (-4, 1, 2)])
def test_counting_whole_numbers(bounds):
    created = dg.arange(*bounds)
    assert created.dtype is dg.int64 and created.tolist() == list(range(*bounds))
    assert dg.arange(*bounds, dtype=dg.int64).tolist() == created.tolist()


@pytest.mark.parametrize("steps", [0, 1, 2, 9])
@pytest.mark.parametrize(("start", "end"), [(0, 1), (-1.5, 2.0), (3, 3), (1e-320, 3e-320), (5.0, -5.0)])
def test_linspace_has_the_bits_of_numpy(start, end, steps):
    for kind in (numpy.float32, numpy.float64):
        created = dg.linspace(start, end, steps, dtype=dg.float32 if kind is numpy.float32 else dg.float64).numpy()
        assert created.tobytes() == numpy.linspace(start, end, steps).astype(kind).tobytes()


@pytest.mark.parametrize(("rows", "columns"), [(0, 2), (1, 1), (2, 5), (5, 2), (3, 3)])
def test_eye_of_any_shape(rows, columns):
    for kind in (dg.float32, dg.int64, dg.bool, dg.bfloat16):
        created = dg.eye(rows, columns, dtype=kind)
        assert created.dtype is kind and (created.float().numpy() == numpy.eye(rows, columns)).all()


def test_linspace_counts_in_whole_steps():
    with pytest.raises(TypeError, match=r"linspace\(\): argument 'steps' must be an int, not float \(1.0\)"):
        dg.linspace(0, 3, 1.0)
    assert dg.linspace(0, 1, dg.tensor(3)).tolist() == [0, 0.5, 1]


@pytest.mark.parametrize("dtype", [dg.float32, dg.int64, dg.bfloat16])
@pytest.mark.parametrize("shared", [True, False])
def test_tensors_on_files(tmp_path, dtype, shared):
    path = tmp_path / "numbers"
    numbers = numpy.arange(5).astype(dtype.numpy)
    path.write_bytes(numbers.tobytes())
    x = dg.from_file(path, shared, 4, dtype=dtype)
    assert x.dtype == dtype and x.tolist() == [0, 1, 2, 3]
    x[0] = 7
    again = dg.from_file(str(path), size=5, dtype=dtype, requires_grad=dtype.is_floating_point)
    assert again.tolist() == [7 if shared else 0, 1, 2, 3, 4] and again.requires_grad == dtype.is_floating_point


def test_tensors_on_files_that_are_too_short_or_elsewhere(tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(bytes(8))
    with pytest.raises(RuntimeError, match="has 8 bytes, 12 were asked for"):
        dg.from_file(path, size=3)
    assert dg.from_file(path, True, 3).tolist() == [0.0] * 3 and path.stat().st_size == 12
    assert dg.from_file(path).shape == (0,)
    with pytest.raises(DeviceError, match="from_file: expected the CPU, got device cuda"):
        dg.from_file(path, size=1, device="cuda")


@pytest.mark.parametrize(
    "start, end, steps", [(1e-4, 0.02, 1000), (-3.3, 7.7, 101), (5, -1, 7), (2.5, 2.5, 4), (0.1, 0.7, 1), (0, 1, 0)]
)
def test_linspace_counts_from_the_nearer_end_in_float32(start, end, steps):
    begin, close = numpy.float32(start), numpy.float32(end)
    step = float((close - begin) / numpy.float32(steps - 1)) if steps > 1 else 0.0
    places = range(steps)
    expected = [float(begin) + step * k if k < steps // 2 else float(close) - step * (steps - 1 - k) for k in places]
    if steps == 1:
        expected = [float(begin)]
    assert dg.linspace(start, end, steps).tolist() == numpy.array(expected, "float32").tolist()


class Exporting:
    """An array of another library."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("make, shares", [(dg.tensor, False), (dg.as_tensor, True), (dg.asarray, True)])
def test_arrays_of_other_libraries(make, shares):
    source = numpy.arange(3.0)
    x = make(Exporting(source))
    assert x.tolist() == [0, 1, 2] and x.dtype is dg.float64
    source[0] = 5
    assert x[0].item() == (5 if shares else 0)
    assert make(Exporting(source), dtype=dg.int32).dtype is dg.int32


@pytest.mark.parametrize("make", [dg.from_numpy, dg.as_tensor])
def test_elements_that_do_not_lie_whole_elements_apart(make):
    field = numpy.zeros(3, [("a", "i1"), ("b", "f4")])["b"]
    assert field.strides == (5,)
    with pytest.raises(ValueError, match=r"strides \(5,\) not a multiple of the element byte size 4.*Copy"):
        make(field)
    assert dg.tensor(field).tolist() == [0, 0, 0]


def test_rows_of_arrays_of_different_lengths():
    with pytest.raises(ValueError, match="rows have different lengths"):
        dg.tensor([numpy.array([0]), numpy.array([1, 2])])
