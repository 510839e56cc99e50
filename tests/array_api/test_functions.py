"""Functions of the array API namespace: their results against NumPy's functions of the same names, and what the standard adds to PyTorch."""

import inspect
import math

import numpy
import pytest

import dynograd as dg
import dynograd.array_api as xp

DRAW = numpy.random.default_rng(0)
REAL = DRAW.normal(size=(3, 4))
POSITIVE = DRAW.uniform(1.1, 3, (3, 4))
SMALL = DRAW.uniform(-0.9, 0.9, (3, 4))
WHOLE = DRAW.integers(1, 9, (3, 4))
BITS = DRAW.integers(0, 5, (3, 4))
TRUTH = DRAW.integers(0, 2, (3, 4)).astype(bool)
COMPLEX = REAL + 1j * SMALL
TALL = DRAW.normal(size=(2, 4, 3))
SQUARE = DRAW.normal(size=(2, 3, 3)) + 3 * numpy.eye(3)
SYMMETRIC = SQUARE @ SQUARE.swapaxes(-1, -2)


def rows(names, *values):
    return [(name, values, {}) for name in names.split()]


def renamed(name):
    """NumPy 2.0 lacks a few of the standard's names."""
    own = {
        "cumulative_sum": lambda x, axis=None, dtype=None, include_initial=False: running(
            numpy.cumsum, 0, x, axis, dtype, include_initial
        ),
        "cumulative_prod": lambda x, axis=None, dtype=None, include_initial=False: running(
            numpy.cumprod, 1, x, axis, dtype, include_initial
        ),
        "unstack": lambda x, axis=0: tuple(numpy.moveaxis(x, axis, 0)),
        "argsort": lambda x, axis=-1, descending=False: numpy.argsort(-x if descending else x, axis, kind="stable"),
        "sort": lambda x, axis=-1, descending=False: -numpy.sort(-x, axis) if descending else numpy.sort(x, axis),
        "clip": lambda x, low=None, high=None: x if low is high is None else numpy.clip(x, low, high),
        "unique_values": numpy.unique,
        "take_along_axis": lambda x, i, axis=-1: numpy.take_along_axis(x, i, axis),
        "reshape": lambda x, shape, copy=None: numpy.reshape(x, shape),
    }
    result = numpy
    for part in name.split("."):
        result = getattr(result, part, None)
    return own.get(name, result)


def running(function, start, x, axis, dtype, include_initial):
    axis = 0 if axis is None else axis
    result = function(x, axis, dtype)
    shape = list(x.shape)
    shape[axis] = 1
    return numpy.concatenate([numpy.full(shape, start, result.dtype), result], axis) if include_initial else result


ROWS = [
    *rows(
        "abs atan asinh ceil conj cos cosh exp expm1 floor isfinite isinf isnan negative positive real round sign sin sinh square tan",
        REAL,
    ),
    *rows("tanh trunc signbit logical_not", REAL),
    *rows("acosh log log1p log2 log10 reciprocal sqrt", POSITIVE),
    *rows("acos asin atanh", SMALL),
    *rows("abs conj cos exp imag isfinite log negative real sign sin sqrt square tanh", COMPLEX),
    *rows("abs bitwise_invert ceil floor negative positive round sign square trunc isnan", WHOLE),
    *rows(
        "add atan2 copysign divide equal floor_divide greater greater_equal hypot less less_equal logaddexp maximum minimum",
        REAL,
        POSITIVE,
    ),
    *rows("multiply nextafter not_equal remainder subtract", REAL, POSITIVE),
    *rows("pow", POSITIVE, REAL),
    *rows("add subtract multiply divide equal not_equal", COMPLEX, POSITIVE),
    *rows(
        "bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor add floor_divide multiply pow",
        BITS,
        WHOLE,
    ),
    *rows("remainder subtract maximum minimum less", BITS, WHOLE),
    *rows("logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor", TRUTH, TRUTH[::-1]),
    ("clip", (REAL, -0.5, 0.5), {}),
    ("clip", (REAL, SMALL, POSITIVE), {}),
    ("clip", (REAL, None, 0.5), {}),
    ("clip", (REAL,), {}),
    *[
        (name, (values,), {"axis": axis, "keepdims": keepdims})
        for name, values in [
            ("sum", REAL),
            ("sum", WHOLE),
            ("prod", SMALL),
            ("prod", BITS),
            ("mean", REAL),
            ("max", REAL),
            ("min", WHOLE),
        ]
        + [("std", REAL), ("var", REAL), ("any", TRUTH), ("all", TRUTH), ("any", REAL), ("count_nonzero", BITS)]
        for axis in (None, 0, -1, (0, 1), (1,))
        for keepdims in (False, True)
    ],
    *[(name, (REAL,), {"axis": ()}) for name in ("sum", "prod", "max", "min", "mean")],
    ("var", (REAL,), {"axis": 1, "correction": 1}),
    ("std", (REAL,), {"correction": 0.5}),
    ("sum", (TRUTH,), {}),
    ("sum", (WHOLE,), {"dtype": "float64"}),
    ("argmax", (REAL,), {}),
    ("argmax", (REAL,), {"keepdims": True}),
    ("argmin", (REAL,), {"axis": 1, "keepdims": True}),
    ("cumulative_sum", (REAL,), {"axis": 1}),
    ("cumulative_sum", (WHOLE,), {"axis": 0, "include_initial": True}),
    ("cumulative_sum", (REAL[0],), {"include_initial": True}),
    ("cumulative_prod", (SMALL,), {"axis": -1, "include_initial": True}),
    ("diff", (REAL,), {"axis": 0, "n": 2}),
    ("diff", (REAL,), {"prepend": REAL[:, :1], "append": REAL[:, :2]}),
    ("nonzero", (BITS,), {}),
    ("searchsorted", (numpy.sort(REAL[0]), SMALL), {"side": "right"}),
    ("searchsorted", (REAL[0], SMALL), {"sorter": numpy.argsort(REAL[0])}),
    ("where", (TRUTH, REAL, POSITIVE), {}),
    ("where", (TRUTH, REAL, 2), {}),
    ("take", (REAL, WHOLE[0] % 3), {"axis": 0}),
    ("take", (REAL[0], BITS[0] % 3), {}),
    ("take_along_axis", (REAL, WHOLE % 3), {"axis": 0}),
    ("take_along_axis", (REAL, -(WHOLE % 3) - 1), {}),
    ("sort", (REAL,), {"axis": 0}),
    ("sort", (REAL,), {"descending": True}),
    ("argsort", (BITS,), {}),
    ("argsort", (BITS,), {"axis": 0, "descending": True}),
    ("unique_values", (BITS,), {}),
    ("unique_counts", (BITS,), {}),
    ("unique_inverse", (BITS,), {}),
    ("unique_all", (BITS,), {}),
    ("broadcast_to", (REAL, (2, 3, 4)), {}),
    ("broadcast_arrays", (REAL, REAL[:, :1], REAL[0]), {}),
    ("concat", ([REAL, SMALL],), {"axis": 1}),
    ("concat", ([REAL, SMALL[0]],), {"axis": None}),
    ("stack", ([REAL, SMALL],), {"axis": -1}),
    ("unstack", (REAL,), {"axis": 1}),
    ("expand_dims", (REAL, -1), {}),
    ("squeeze", (REAL[:, None], 1), {}),
    ("flip", (REAL,), {}),
    ("flip", (REAL,), {"axis": (0, 1)}),
    ("roll", (REAL, 2), {}),
    ("roll", (REAL, (1, -1)), {"axis": (0, 1)}),
    ("roll", (REAL, 1), {"axis": 1}),
    ("permute_dims", (TALL, (2, 0, 1)), {}),
    ("moveaxis", (TALL, (0, 1), (-1, 0)), {}),
    ("reshape", (REAL, (2, -1)), {}),
    ("reshape", (REAL, (12,)), {"copy": True}),
    ("repeat", (REAL, 2), {}),
    ("repeat", (REAL, WHOLE[:, 0]), {"axis": 0}),
    ("tile", (REAL, (2, 1, 3)), {}),
    ("tril", (REAL,), {"k": 1}),
    ("triu", (REAL,), {"k": -1}),
    ("meshgrid", (REAL[0], SMALL[:, 0]), {}),
    ("meshgrid", (REAL[0], SMALL[:, 0]), {"indexing": "ij"}),
    ("matmul", (SQUARE, TALL.swapaxes(-1, -2)), {}),
    ("matmul", (WHOLE, WHOLE.T), {}),
    ("tensordot", (TALL, TALL.swapaxes(0, 1)), {"axes": ((0, 1), (1, 0))}),
    ("tensordot", (REAL, REAL.T), {"axes": 1}),
    ("vecdot", (COMPLEX, COMPLEX[::-1]), {}),
    ("vecdot", (WHOLE, BITS), {"axis": -2}),
    ("matrix_transpose", (TALL,), {}),
    ("zeros_like", (REAL,), {}),
    ("ones_like", (WHOLE,), {}),
    ("full_like", (REAL, 7), {}),
    ("linalg.cholesky", (SYMMETRIC,), {}),
    ("linalg.cholesky", (SYMMETRIC,), {"upper": True}),
    ("linalg.cross", (TALL, TALL[::-1]), {}),
    ("linalg.det", (SQUARE,), {}),
    ("linalg.diagonal", (TALL,), {"offset": -1}),
    ("linalg.eigvalsh", (SYMMETRIC,), {}),
    ("linalg.inv", (SQUARE,), {}),
    ("linalg.matrix_norm", (TALL,), {}),
    ("linalg.matrix_norm", (TALL,), {"ord": "nuc", "keepdims": True}),
    ("linalg.matrix_power", (SQUARE, -2), {}),
    ("linalg.matrix_rank", (TALL,), {}),
    ("linalg.outer", (REAL[0], SMALL[0]), {}),
    ("linalg.pinv", (TALL,), {}),
    ("linalg.pinv", (TALL,), {"rtol": 0.5}),
    ("linalg.slogdet", (SQUARE,), {}),
    ("linalg.solve", (SQUARE, SQUARE[:, :, :2]), {}),
    ("linalg.solve", (SQUARE, REAL[:, 0]), {}),
    ("linalg.solve", (SQUARE, REAL), {}),
    ("linalg.svdvals", (TALL,), {}),
    ("linalg.trace", (SQUARE,), {"offset": 1}),
    ("linalg.vector_norm", (TALL,), {"axis": (0, 2), "ord": 3}),
    ("linalg.vector_norm", (TALL,), {"keepdims": True}),
    *[(f"fft.{name}", (COMPLEX,), {"axis": 0}) for name in ("fft", "ifft", "irfft", "hfft")],
    *[(f"fft.{name}", (REAL,), {"n": 6, "norm": "ortho"}) for name in ("fft", "rfft", "ihfft")],
    *[(f"fft.{name}", (COMPLEX,), {}) for name in ("fftn", "ifftn", "irfftn", "fftshift", "ifftshift")],
    ("fft.rfftn", (REAL,), {"axes": (1, 0), "norm": "forward"}),
]


def as_tensors(value):
    if isinstance(value, numpy.ndarray):
        return xp.asarray(numpy.ascontiguousarray(value))
    if isinstance(value, list):
        return [as_tensors(element) for element in value]
    return value


def called(name, values, options):
    function = xp
    for part in name.split("."):
        function = getattr(function, part)
    options = {key: as_tensors(value) for key, value in options.items()}
    if "dtype" in options:
        options["dtype"] = getattr(xp, options["dtype"])
    return function(*[as_tensors(value) for value in values], **options)


@pytest.mark.parametrize(
    ("name", "values", "options"), ROWS, ids=[f"{row[0]}-{number}" for number, row in enumerate(ROWS)]
)
def test_results_and_dtypes_are_numpys(name, values, options):
    results, expected = called(name, values, options), renamed(name)(*values, **options)
    if not isinstance(expected, (tuple, list)):
        results, expected = [results], [expected]
    assert len(results) == len(expected)
    for element, reference in zip(results, expected, strict=True):
        reference = numpy.asarray(reference)
        assert (
            type(element) is dg.Tensor
            and element.numpy().dtype == reference.dtype
            and tuple(element.shape) == reference.shape
        )
        numpy.testing.assert_allclose(element.numpy(), reference, rtol=1e-9, atol=1e-9)


def test_every_function_has_a_row():
    functions = {name for name in xp.__all__ if inspect.isfunction(getattr(xp, name))}
    functions |= {f"{part}.{name}" for part in ("linalg", "fft") for name in getattr(xp, part).__all__}
    beside = "arange asarray astype can_cast empty empty_like eye finfo from_dlpack full iinfo isdtype linspace ones result_type zeros"
    beside += " __array_namespace_info__ linalg.eigh linalg.qr linalg.svd linalg.matmul linalg.matrix_transpose linalg.tensordot linalg.vecdot"
    beside += " fft.fftfreq fft.rfftfreq"
    assert functions - {row[0] for row in ROWS} == set(beside.split())  # which have tests of their own


CREATED = [
    (lambda: xp.arange(5, 2), numpy.arange(0)),
    (lambda: xp.arange(2, 9, 3), numpy.arange(2, 9, 3)),
    (lambda: xp.arange(-1.0, step=2), numpy.arange(0, dtype="float32")),
    (lambda: xp.arange(3, dtype=xp.uint32), numpy.arange(3, dtype="uint32")),
    (lambda: xp.linspace(0, 1, 5), numpy.linspace(0, 1, 5, dtype="float32")),
    (lambda: xp.linspace(0, 1, 4, endpoint=False, dtype=xp.float64), numpy.linspace(0, 1, 4, endpoint=False)),
    (lambda: xp.linspace(0, 1 + 2j, 3, dtype=xp.complex128), numpy.linspace(0, 1 + 2j, 3)),
    (lambda: xp.linspace(0, 1, 0), numpy.zeros(0, "float32")),
    (lambda: xp.eye(2, 4, k=1), numpy.eye(2, 4, k=1, dtype="float32")),
    (lambda: xp.eye(3, k=-5, dtype=xp.int8), numpy.zeros((3, 3), "int8")),
    (lambda: xp.eye(2), numpy.eye(2, dtype="float32")),
    (lambda: xp.full((2,), True), numpy.array([True, True])),
    (lambda: xp.full(2, 2.5), numpy.array([2.5, 2.5], "float32")),
    (lambda: xp.full((1,), 1j), numpy.array([1j], "complex64")),
    (lambda: xp.zeros(()), numpy.zeros((), "float32")),
    (lambda: xp.ones((1, 2), dtype=xp.uint16), numpy.ones((1, 2), "uint16")),
    (lambda: xp.asarray(2**64 - 1, dtype=xp.uint64), numpy.array(2**64 - 1, "uint64")),
    (lambda: xp.asarray([[1, 2], [3, 4]]), numpy.array([[1, 2], [3, 4]])),
    (lambda: xp.asarray([1.5]), numpy.array([1.5], "float32")),
    (lambda: xp.astype(xp.asarray([1.5, -1.5]), xp.int16), numpy.array([1, -1], "int16")),
    (lambda: xp.fft.fftfreq(4, d=2.0), numpy.fft.fftfreq(4, 2).astype("float32")),
    (lambda: xp.fft.rfftfreq(5, dtype=xp.float64), numpy.fft.rfftfreq(5)),
    (lambda: xp.from_dlpack(numpy.arange(3.0)), numpy.arange(3.0)),
]


@pytest.mark.parametrize(("make", "expected"), CREATED)
def test_what_is_made(make, expected):
    result = make().numpy()
    assert result.dtype == expected.dtype and result.shape == expected.shape and numpy.allclose(result, expected)


def test_empty_has_the_shape_and_dtype():
    assert tuple(xp.empty((2, 3), dtype=xp.int8).shape) == (2, 3) == tuple(xp.empty_like(xp.ones((2, 3))).shape)
    assert xp.empty(2, dtype=xp.int8).dtype is xp.int8 is xp.empty_like(xp.ones(1), dtype=xp.int8).dtype


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((xp.int8, xp.uint8), xp.int16),
        ((xp.uint32, xp.int8), xp.int64),
        ((xp.uint8, xp.uint64), xp.uint64),
        ((xp.float32, xp.complex64), xp.complex64),
        ((xp.float64, xp.complex64), xp.complex128),
        ((xp.ones(2), xp.ones((), dtype=xp.float64)), xp.float64),
        ((xp.ones(2, dtype=xp.uint8), xp.ones((), dtype=xp.uint16)), xp.uint16),
        ((xp.ones(2, dtype=xp.int8), 3), xp.int8),
        ((xp.ones(2), 3), xp.float32),
        ((xp.float64, 2.5), xp.float64),
        ((xp.float64, 2j), xp.complex128),
        ((xp.bool, 2), xp.int64),
        ((xp.int8, 2.5), xp.float32),
    ],
)
def test_promotion_counts_tensors_without_dims_and_lets_numbers_follow(values, expected):
    assert xp.result_type(*values) is expected is xp.result_type(*values[::-1])
    tensors = [value if not isinstance(value, dg.dtypes.dtype) else xp.ones(2, dtype=value) for value in values]
    assert xp.multiply(*tensors).dtype is expected is xp.multiply(*tensors[::-1]).dtype


def test_promotion_reaches_functions_of_several_tensors():
    x, y = xp.ones(2), xp.ones((), dtype=xp.float64)
    for result in (
        xp.add(x, y),
        xp.maximum(x, y),
        xp.where(x > 0, x, y),
        xp.atan2(y, x),
        xp.clip(x, y, 2),
        xp.add(1.5, xp.add(y, x)),
    ):
        assert result.dtype is xp.float64
    assert xp.concat([x, xp.ones(1, dtype=xp.float64)]).dtype is xp.float64 is xp.stack([y, xp.ones(())]).dtype


def test_can_cast_isdtype_and_limits():
    assert (
        xp.can_cast(xp.int8, xp.int16) and not xp.can_cast(xp.int16, xp.int8) and not xp.can_cast(xp.uint64, xp.int64)
    )
    assert xp.can_cast(xp.ones(2), xp.complex64) and not xp.can_cast(xp.float64, xp.float32)
    assert xp.isdtype(xp.uint16, "unsigned integer") and xp.isdtype(xp.float32, ("integral", xp.float32))
    assert not xp.isdtype(xp.bool, "numeric") and not xp.isdtype(xp.float32, "complex floating")
    assert xp.isdtype(dg.bfloat16, "real floating") and not xp.isdtype(xp.int8, xp.int16)
    with pytest.raises(ValueError, match="isdtype: expected one of 'bool', .* got 'float'"):
        xp.isdtype(xp.float32, "float")
    assert (
        xp.finfo(xp.ones(2, dtype=xp.complex64))[:2] == (32, 2.0**-23) and xp.finfo(xp.complex128).dtype is xp.float64
    )
    assert (
        xp.iinfo(xp.uint64).max == 2**64 - 1
        and xp.iinfo(xp.ones(2, dtype=xp.int8)).min == -128
        and xp.iinfo(xp.int8).dtype is xp.int8
    )


def test_what_the_standard_has_otherwise_than_pytorch():
    inf, nan = math.inf, math.nan
    edges = xp.floor_divide(xp.asarray([inf, 1.0, -1.0]), xp.asarray([2.0, -inf, inf])).numpy()
    assert edges.tolist() == [inf, 0, 0] and numpy.signbit(edges).tolist() == [False, True, True]
    assert xp.floor_divide(xp.asarray([7.0]), 2).item() == 3 and xp.floor_divide(7, xp.asarray([2])).item() == 3
    assert math.isnan(xp.sign(xp.asarray(nan)).item()) and dg.sign(dg.tensor(nan)).item() == 0
    result = xp.expm1(xp.asarray([complex(-inf, inf), complex(-0.0, 0.0), complex(inf, 0.0), 1 + 2j])).numpy()
    assert result[:3].tolist() == [-1, 0, complex(inf, 0)] and not numpy.signbit(result[1].real)
    assert abs(result[3] - (numpy.exp(1 + 2j) - 1)) < 1e-6
    result = xp.unique_all(xp.asarray([nan, 1.0, nan]))
    assert (
        result.counts.tolist() == [1, 1, 1]
        and result.indices.tolist() == [1, 0, 2]
        and result.inverse_indices.tolist() == [1, 0, 2]
    )
    assert xp.unique_values(xp.asarray([1j, 0j, 1j])).tolist() == [0, 1j] and xp.unique_values(
        xp.ones((0, 2))
    ).shape == (0,)
    assert (
        xp.sum(xp.asarray([200, 200], dtype=xp.uint8)).dtype is xp.uint64
        and xp.sum(xp.ones(2, dtype=xp.int8)).dtype is xp.int64
    )


def test_memory_is_copied_when_asked_for_and_only_then():
    x = xp.reshape(xp.arange(6), (2, 3))
    assert xp.asarray(x) is x or xp.asarray(x).data_ptr() == x.data_ptr()
    assert xp.asarray(x, copy=True).data_ptr() != x.data_ptr() == xp.asarray(x, copy=False).data_ptr()
    assert xp.astype(x, xp.int64).data_ptr() != x.data_ptr() and xp.astype(x, xp.int64, copy=False) is x
    assert xp.reshape(x, (6,), copy=False).data_ptr() == x.data_ptr() != xp.reshape(x, (6,), copy=True).data_ptr()
    assert xp.asarray(xp.ones((0,)), copy=False).shape == (0,)
    with pytest.raises(
        ValueError, match=r"reshape: \(3, 2\) with strides \(1, 3\) cannot become \(6,\) without a copy"
    ):
        xp.reshape(x.T, (6,), copy=False)
    with pytest.raises(ValueError, match="a copy is needed"):
        xp.asarray([1, 2], copy=False)


def test_decompositions_multiply_to_what_they_were_made_of():
    x, s = as_tensors(TALL), as_tensors(SYMMETRIC)
    q, r = xp.linalg.qr(x)
    u, sizes, vh = xp.linalg.svd(x, full_matrices=False)
    values, vectors = xp.linalg.eigh(s)
    for created, expected in (
        (q @ r, x),
        ((u * sizes[:, None, :]) @ vh, x),
        (vectors * values[:, None, :], s @ vectors),
    ):
        numpy.testing.assert_allclose(created.numpy(), expected.numpy(), atol=1e-9)
    assert xp.linalg.qr(x, mode="complete").Q.shape == (2, 4, 4) and xp.linalg.svd(x).U.shape == (2, 4, 4)
    assert (xp.linalg.eigh(s).eigenvalues == values).all() and xp.linalg.slogdet(s).logabsdet.shape == (2,)


def test_gradients_flow_through_the_namespace():
    x = dg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = xp.concat([xp.take(x, xp.asarray([1]), axis=0), xp.clip(x, 1.5, 3.5)])
    xp.sum(xp.where(y > 2, xp.square(y), xp.expm1(y))).backward()
    assert numpy.allclose(x.grad.numpy(), [[0, math.exp(2)], [6 + 6, 8]])


ERRORS = [
    (
        lambda x: xp.result_type(1, 2.0),
        TypeError,
        r"result_type: at least one tensor or dtype is required, got \(1, 2.0\)",
    ),
    (lambda x: xp.add(x, "a"), TypeError, "result_type: expected tensors, dtypes and Python numbers, got str 'a'"),
    (
        lambda x: xp.add(xp.ones(1, dtype=xp.uint64), xp.ones(1, dtype=xp.int8)),
        TypeError,
        "no integer dtype holds both",
    ),
    (lambda x: xp.sum(x, axis=(0, 0)), IndexError, r"axis: expected different axes between -2 and 1, got \(0, 0\)"),
    (lambda x: xp.sum(x, axis=2), IndexError, "axis: expected different axes between -2 and 1, got 2"),
    (lambda x: xp.squeeze(x, 0), ValueError, r"squeeze: expected size 1 along axis 0, got shape \(2, 3\)"),
    (lambda x: xp.nonzero(xp.asarray(1)), ValueError, "nonzero: expected a tensor with dims"),
    (
        lambda x: xp.take(x, xp.asarray([0])),
        ValueError,
        r"take: axis may be left out for one dim only, got shape \(2, 3\)",
    ),
    (
        lambda x: xp.cumulative_sum(x),
        ValueError,
        r"cumulative_sum: axis may be left out for one dim only, got shape \(2, 3\)",
    ),
    (lambda x: xp.matrix_transpose(x[0]), ValueError, r"matrix_transpose: expected at least 2 dims, got shape \(3,\)"),
    (lambda x: xp.vecdot(x, x[0], axis=0), ValueError, r"vecdot: expected a negative axis of both tensors, got 0"),
    (lambda x: xp.vecdot(x, x[:, :2]), ValueError, "vecdot: sizes along axis -1 differ: 3 and 2"),
    (
        lambda x: xp.linalg.cross(x, x[:, :2]),
        ValueError,
        r"cross: expected size 3 along axis -1, got shapes \(2, 3\) and \(2, 2\)",
    ),
]


@pytest.mark.parametrize(("call", "kind", "message"), ERRORS)
def test_errors_say_what_was_expected(call, kind, message):
    with pytest.raises(kind, match=message):
        call(xp.ones((2, 3)))
