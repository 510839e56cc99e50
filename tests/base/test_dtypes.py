"""dtypes: identity, promotion, limits, and what stands for a dtype."""

from __future__ import annotations

import copy
import pickle

import numpy
import pytest

import dynograd as dg
from dynograd.base import dtypes
from dynograd.errors import DtypeError

# Rows and columns: bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64, complex64, complex128.
ORDER = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
TABLE = """
b  u1 i1 i2 i4 i8 f2 bf f4 f8 c8 c16
u1 u1 i2 i2 i4 i8 f2 bf f4 f8 c8 c16
i1 i2 i1 i2 i4 i8 f2 bf f4 f8 c8 c16
i2 i2 i2 i2 i4 i8 f2 bf f4 f8 c8 c16
i4 i4 i4 i4 i4 i8 f2 bf f4 f8 c8 c16
i8 i8 i8 i8 i8 i8 f2 bf f4 f8 c8 c16
f2 f2 f2 f2 f2 f2 f2 f4 f4 f8 c8 c16
bf bf bf bf bf bf f4 bf f4 f8 c8 c16
f4 f4 f4 f4 f4 f4 f4 f4 f4 f8 c8 c16
f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 c16 c16
c8 c8 c8 c8 c8 c8 c8 c8 c8 c16 c8 c16
c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16
"""
SHORT = dict(zip(["b", "u1", "i1", "i2", "i4", "i8", "f2", "bf", "f4", "f8", "c8", "c16"], ORDER, strict=True))
CASES = [
    (element, two, SHORT[cell])
    for element, row in zip(ORDER, TABLE.split("\n")[1:-1], strict=True)
    for two, cell in zip(ORDER, row.split(), strict=True)
]


@pytest.mark.parametrize(("one", "two", "expected"), CASES)
def test_promotion_of_tensors(one, two, expected):
    assert dg.promote_types(getattr(dg, one), getattr(dg, two)) is getattr(dg, expected)
    x, y = dg.ones(2, dtype=getattr(dg, one)), dg.ones(2, dtype=getattr(dg, two))
    assert (x + y).dtype is getattr(dg, expected)


UNSIGNED = [dg.uint8, dg.uint16, dg.uint32, dg.uint64]


@pytest.mark.parametrize("one", UNSIGNED, ids=lambda kind: kind.name)
@pytest.mark.parametrize(
    "two", [kind for kind in dtypes.ALL if kind.category == dtypes.INTEGER], ids=lambda kind: kind.name
)
def test_unsigned_integers_are_promoted_as_in_numpy(one, two):
    if one is dg.uint64 and two.is_signed:
        for make in (lambda: dg.promote_types(two, one), lambda: dg.ones(2, dtype=one) + dg.ones(2, dtype=two)):
            with pytest.raises(DtypeError, match=r"no integer dtype holds both .*uint64.*Convert"):
                make()
        return
    expected = dg.dtypes.as_dtype(numpy.promote_types(one.numpy, two.numpy))
    assert dg.promote_types(one, two) is expected is dg.promote_types(two, one)
    assert (dg.ones(2, dtype=one) + dg.ones(2, dtype=two)).dtype is expected


@pytest.mark.parametrize("kind", UNSIGNED, ids=lambda kind: kind.name)
def test_unsigned_integers_wrap_and_keep_their_dtype(kind):
    top = dg.iinfo(kind).max
    x = dg.tensor([0, 1, top], dtype=kind)
    assert x.tolist() == [0, 1, top] and not kind.is_signed and top == 2 ** (8 * kind.itemsize) - 1
    rows = [
        (x + 1, [1, 2, 0]),
        (x - 1, [top, 0, top - 1]),
        (x * 2, [0, 2, top - 1]),
        (-x, [0, top, 1]),
        (~x, [top, top - 1, 0]),
        (x // 2, [0, 0, top // 2]),
        (x % 2, [0, 1, 1]),
        (x >> 1, [0, 0, top >> 1]),
        (x.sort(descending=True).values, [top, 1, 0]),
        (x.max(), top),
        (x.unique(), [0, 1, top]),
        (x.clamp(1, 2), [1, 1, 2]),
        (dg.cat([x, x])[2:4], [top, 0]),
        (dg.where(x > 1, x, 7), [7, 7, top]),
    ]
    for result, expected in rows:
        assert result.dtype is kind and result.tolist() == expected
    assert (x / 2).dtype is dg.float32 and (x < top).tolist() == [True, True, False]
    assert x.type() == f"dynograd.{'Byte' if kind is dg.uint8 else kind.name.replace('uint', 'UInt')}Tensor"
    assert x[dg.tensor([2, 0])].tolist() == [top, 0] and x.argmax().item() == 2 and x.float().tolist()[:2] == [0, 1]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: dg.ones(2, dtype=dg.int32) + 1, dg.int32),
        (lambda: dg.ones(2, dtype=dg.int32) + 1.5, dg.float32),
        (lambda: dg.ones(2, dtype=dg.uint8) * True, dg.uint8),
        (lambda: dg.ones(2, dtype=dg.float16) * 2.5, dg.float16),
        (lambda: dg.ones(2, dtype=dg.bfloat16) * 2, dg.bfloat16),
        (lambda: dg.ones(2, dtype=dg.bool) + 1, dg.int64),
        (lambda: dg.ones(2) * dg.tensor(2.0, dtype=dg.float64), dg.float32),
        (lambda: dg.ones(2, dtype=dg.int32) * dg.tensor(2, dtype=dg.int64), dg.int32),
        (lambda: dg.ones(2, dtype=dg.int32) * dg.tensor(2.0, dtype=dg.float64), dg.float64),
        (lambda: dg.tensor(1, dtype=dg.int32) * dg.tensor(2, dtype=dg.int64), dg.int64),
        (lambda: dg.tensor(1.0, dtype=dg.float64) * 2, dg.float64),
        (lambda: dg.ones(2, dtype=dg.int64) / 2, dg.float32),
        (lambda: dg.ones(2, dtype=dg.float32) * 1j, dg.complex64),
        (lambda: dg.ones(2, dtype=dg.float64) * 1j, dg.complex128),
        (lambda: dg.ones(2, dtype=dg.int64) ** 2, dg.int64),
    ],
)
def test_dims_beat_scalars_and_tensors_beat_numbers(make, expected):
    assert make().dtype is expected


def test_default_dtype_rules_new_tensors():
    dg.set_default_dtype(dg.float64)
    assert dg.tensor(1.5).dtype is dg.float64 and dg.zeros(1).dtype is dg.float64
    assert (dg.ones(2, dtype=dg.int64) * 1.5).dtype is dg.float64
    with pytest.raises(DtypeError, match="expected a floating dtype, got dynograd.int64"):
        dg.set_default_dtype(dg.int64)


def test_what_stands_for_a_dtype():
    for value in ("float32", numpy.float32, numpy.dtype("float32"), "dynograd.float32", dg.float):
        assert dtypes.as_dtype(value) is dg.float32
    with pytest.raises(DtypeError, match=r"expected a dtype such as dynograd.float32, got 'float31'"):
        dg.zeros(1, dtype="float31")
    with pytest.raises(DtypeError, match=r"no dynograd dtype.*astype"):
        dg.from_numpy(numpy.zeros(1, "datetime64[s]"))


def test_dtypes_are_singletons():
    for element in dtypes.ALL:
        assert copy.deepcopy(element) is element and pickle.loads(pickle.dumps(element)) is element
    assert repr(dg.bfloat16) == "dynograd.bfloat16" and dg.half is dg.float16


def test_properties():
    assert dg.float16.is_floating_point and not dg.int8.is_floating_point and dg.complex64.is_complex
    assert not dg.uint8.is_signed and dg.complex128.to_real() is dg.float64 and dg.float32.to_complex() is dg.complex64
    assert dg.bfloat16.itemsize == 2


def test_can_cast_never_drops_a_kind():
    assert dg.can_cast(dg.float64, dg.float16) and dg.can_cast(dg.int64, dg.float16)
    assert not dg.can_cast(dg.float32, dg.int64) and not dg.can_cast(dg.int8, dg.bool)


def test_limits():
    assert dg.finfo(dg.float32).max == numpy.finfo(numpy.float32).max and dg.finfo(dg.bfloat16).eps == 0.0078125
    digits = {
        dg.float64: 1e-15,
        dg.float32: 1e-6,
        dg.complex64: 1e-6,
        dg.half: 1e-3,
        dg.bfloat16: 1e-2,
        dg.float8_e5m2: 1.0,
    }
    assert {kind: dg.finfo(kind).resolution for kind in digits} == digits
    assert dg.finfo().bits == 32 and dg.iinfo(dg.uint8).max == 255 and dg.iinfo(dg.int64).min == -(2**63)
    assert "dtype=float16" in repr(dg.finfo(dg.half)) and "max=127" in repr(dg.iinfo(dg.int8))
    with pytest.raises(TypeError, match="Use iinfo"):
        dg.finfo(dg.int64)
    with pytest.raises(TypeError, match="Use finfo"):
        dg.iinfo(dg.float32)


@pytest.mark.parametrize(
    ("kind", "meant"), [(float, dg.float64), (int, dg.int64), (bool, dg.bool), (complex, dg.complex128)]
)
def test_types_of_python_are_dtypes_whatever_the_default(kind, meant):
    x = dg.ones(2)
    for result in (dg.zeros(2, dtype=kind), x.to(kind), x.to(dtype=kind), x.type(kind), x.sum(dtype=kind)):
        assert result.dtype is meant
    if kind is float:
        assert dg.nn.Linear(2, 2).to(float).weight.dtype is meant


def test_limits_of_one_dtype_are_equal():
    assert dg.finfo(dg.half) == dg.finfo(dg.float16) != dg.finfo(dg.bfloat16)
    assert dg.iinfo(dg.int8) == dg.iinfo(dg.int8) != dg.iinfo(dg.int16)
    assert len({dg.finfo(dg.half), dg.finfo(dg.half), dg.iinfo(dg.int8), dg.iinfo(dg.int8)}) == 2


@pytest.mark.parametrize(
    "name, words",
    [
        ("complex32", "16-bit parts are not supported. Use complex64"),
        ("int4", "fewer than 8 bits are not supported. Use int8"),
        ("bits1x8", "fewer than 8 bits are not supported. Use int8"),
        ("quint8", "quantized tensors are not supported. Store numbers as int8 with a scale"),
        ("float8_e8m0fnu", "of 8 bits there are float8_e4m3fn and float8_e5m2"),
    ],
)
def test_dtypes_without_tensors(name, words):
    kind = getattr(dg, name)
    assert {kind: 1}[kind] == 1 and str(kind) == f"dynograd.{name}" and pickle.loads(pickle.dumps(kind)) is kind
    for call in (
        lambda: dg.zeros(2, dtype=kind),
        lambda: dg.ones(2).to(kind),
        lambda: dg.ones(2).type(kind),
        lambda: dg.nn.Linear(1, 1).to(kind),
        lambda: dg.zeros(2, dtype=name),
    ):
        with pytest.raises(DtypeError, match=f"there are no tensors of dtype {name}: .*{words}"):
            call()


def test_dtypes_without_tensors_are_pytorchs():
    kinds = dtypes.WITHOUT_TENSORS
    assert len(kinds) == 29 and {kind.itemsize for kind in kinds.values()} == {1, 2, 4}
    assert [name for name, kind in kinds.items() if not kind.is_signed] == [
        name for name in kinds if name.startswith(("uint", "quint", "bits"))
    ]
