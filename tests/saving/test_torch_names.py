"""What each name in a PyTorch checkpoint gives, refuses and costs, called as the machine that reads pickles calls it."""

from __future__ import annotations

import datetime
import decimal
import io
import types
import zipfile

import numpy
import pytest

import dynograd
from dynograd.errors import CheckpointError
from dynograd.saving.torch_names import BUILDS, CALLS
from dynograd.saving.torch_pickles import Global, Machine
from dynograd.tensor.storages import UntypedStorage

ROOM = 1 << 20
INT16, TEXTS = numpy.dtype("<i2"), numpy.dtype("S3")
STORAGE = dynograd.arange(6.0).untyped_storage()
ZONE = datetime.timezone(datetime.timedelta(hours=1))


def machine(room=ROOM):
    reader = Machine(b"", "the file", calls=CALLS, builds=BUILDS)
    reader.allowance = room
    return reader


def call(name, *arguments, reader=None):
    return (reader or machine()).call(Global(name), arguments)


REFUSED = [
    ("torch.Size", ([2, 3.0],), "wrong size"),
    ("torch.Size", ([2, True],), "wrong size"),
    ("torch.device", (1,), "wrong device"),
    ("torch.device", ("cpu:x",), "wrong device"),
    ("torch.device", ("cuda", "0\n"), "wrong device"),
    ("torch.device", ("disk", 0), "wrong device"),
    ("torch.serialization._get_layout", (3,), "layout '3'"),
    ("torch.serialization._get_layout", ("torch.jagged2",), "layout 'torch.jagged2'"),
    ("torch._utils._rebuild_sparse_tensor", (dynograd.sparse_coo, (1, 2)), "wrong parts of a sparse tensor"),
    ("torch._utils._rebuild_sparse_tensor", (dynograd.sparse_coo, [1, 2, 3]), "wrong parts of a sparse tensor"),
    ("torch._utils._rebuild_sparse_tensor", ("torch.sparse_coo", (1, 2, 3)), "wrong parts of a sparse tensor"),
    ("torch._utils._rebuild_nested_tensor", (1, 2, 3, 4), "wrong parts of a nested tensor"),
    ("torch._utils._rebuild_nested_tensor", (*[dynograd.zeros(1, 1)] * 3, dynograd.zeros(1)), "wrong parts of a nested"),
    ("torch._utils._rebuild_parameter", (numpy.zeros(2), True), "wrong data of a parameter"),
    ("torch._utils._rebuild_parameter", (dynograd.tensor([1, 2]), True), "int64 is said to require a gradient"),
    ("torch._utils._rebuild_tensor", (numpy.zeros(2), 0, (2,), (1,)), "wrong arguments of a tensor"),
    ("torch._utils._rebuild_tensor", (STORAGE, 0, 2, (1,)), "wrong arguments of a tensor"),
    ("torch._utils._rebuild_tensor", (STORAGE, 0, (2,), 1), "wrong arguments of a tensor"),
    ("torch._utils._rebuild_tensor", (STORAGE, -1, (2,), (1,)), r"offset -1"),
    ("torch._utils._rebuild_tensor", (STORAGE, 0, (-2,), (1,)), r"size \(-2,\)"),
    ("torch._utils._rebuild_tensor", (STORAGE, 0, (1 << 62,), (0,)), r"size \(4611686018427387904,\)"),
    ("torch._utils._rebuild_tensor", (STORAGE, 0, (2,), (1.0,)), r"strides \(1.0,\)"),
    ("torch._utils._rebuild_tensor", (STORAGE, 0, (2,), (1,), numpy.float32), r"is damaged: a tensor has size"),
    ("torch._utils._rebuild_tensor", (STORAGE, 0, (2, 2), (1,)), "2 sizes and 1 strides"),
    ("torch._utils._rebuild_tensor", (STORAGE, 0, (1,) * 65, (1,) * 65), "65 sizes and 65 strides"),
    ("torch._utils._rebuild_tensor", (STORAGE, 20, (5,), (1,)), "needs 25 bytes, its storage has 24"),
    ("torch._utils._rebuild_tensor", (STORAGE, 0, (2,), (24,)), "needs 25 bytes, its storage has 24"),
    ("torch._utils._rebuild_tensor", (STORAGE, 0, (2,), (20,), dynograd.float32), "needs 84 bytes"),
    ("torch._tensor._rebuild_from_type_v2", (Global("torch.Size"), Global("torch.Tensor"), (), None), "wrong type of a tensor"),
    ("torch.FloatStorage", (), "calls a class of PyTorch"),
    ("torch.Tensor", (), "calls a class of PyTorch"),
    ("numpy.ndarray", (), "calls a class of PyTorch"),
    ("numpy.dtype", ("O",), "NumPy array of 'O'"),
    ("numpy.dtype", (3,), "NumPy array of '3'"),
    ("numpy.dtype", ("f8,f8",), "NumPy array of 'f8,f8'"),
    ("numpy._core.multiarray.scalar", ("<i2", b"ab"), "wrong NumPy scalar"),
    ("numpy._core.multiarray.scalar", (INT16, "ab"), "wrong NumPy scalar"),
    ("numpy._core.multiarray.scalar", (INT16, b"abc"), "wrong NumPy scalar"),
    ("numpy._core.numeric._frombuffer", (b"abcd", "<i2", (2,), "C"), "wrong state of an array"),
    ("numpy._core.numeric._frombuffer", ("abcd", INT16, (2,), "C"), "wrong state of an array"),
    ("numpy._core.numeric._frombuffer", (b"abcd", INT16, [2], "C"), "wrong state of an array"),
    ("numpy._core.numeric._frombuffer", (b"abcd", INT16, (2.0,), "C"), "wrong shape of an array"),
    ("numpy._core.numeric._frombuffer", (b"abcd", INT16, (-2, -1), "C"), "wrong shape of an array"),
    ("numpy._core.numeric._frombuffer", (b"abcd", INT16, (1,) * 64 + (2,), "C"), "wrong shape of an array"),
    ("numpy._core.numeric._frombuffer", (b"abcd", INT16, (3,), "C"), r"shape \(3,\) has 4 bytes"),
    ("_codecs.encode", (b"a", "latin1"), "bytes from something else"),
    ("_codecs.encode", ("a", "rot13"), "bytes from something else"),
    ("builtins.bytearray", (5,), "bytes from something else"),
    ("builtins.bytearray", (b"a", "latin1"), "bytes from something else"),
    ("builtins.set", ("abc",), "a set of something else"),
    ("builtins.set", ([[1]],), "a list as a key"),
    ("collections.deque", ({1},), "a deque of something else"),
    ("collections.deque", ([1], "2"), "a deque of something else"),
    ("collections.OrderedDict", ([([1], 2)],), "a list as a key"),
    ("collections.defaultdict", (Global("torch.Size"),), "not made by a plain type"),
    ("collections.defaultdict", (len,), "something else than a type"),
    ("builtins.complex", ("1", 2), "something else than numbers"),
    ("builtins.complex", (1, "2"), "something else than numbers"),
    ("builtins.range", (1.0,), "something else than a whole number"),
    ("builtins.range", (True,), "something else than a whole number"),
    ("fractions.Fraction", ("1/3 ",), "something else than a whole number"),
    ("fractions.Fraction", (1.5,), "something else than a whole number"),
    ("decimal.Decimal", (1.5,), "not written as one"),
    ("decimal.Decimal", ("1e9999999999",), "not written as one"),
    ("datetime.date", (b"\x07\xe8\x01",), "the bytes of a time"),
    ("datetime.date", ("2024",), "the bytes of a time"),
    ("datetime.time", (bytes(5),), "the bytes of a time"),
    ("datetime.time", (bytes(6), 1), "a time zone that is none"),
    ("datetime.datetime", (bytes(9),), "the bytes of a time"),
    ("datetime.timedelta", (1.5,), "something else than a whole number"),
    ("datetime.timezone", (3600,), "the offset of a time zone"),
    ("datetime.timezone", (datetime.timedelta(hours=1), 1), "the offset of a time zone"),
    ("pathlib.PurePosixPath", ("a", 1), "a path of something else"),
]  # fmt: skip


@pytest.mark.parametrize("name, arguments, words", REFUSED, ids=[f"{row[0]}-{row[2]}" for row in REFUSED])
def test_what_makes_no_sense_is_refused(name, arguments, words):
    with pytest.raises((CheckpointError, TypeError), match=words):
        call(name, *arguments)


# Name, arguments, what comes back, and what it costs beside the call's 256.
GIVEN = [
    ("torch.Size", ([2, 3],), dynograd.Size([2, 3]), 16),
    ("torch.device", ("cpu",), dynograd.device("cpu"), 0),
    ("torch.device", ("cuda", 1), dynograd.device("cuda:1"), 0),
    ("torch.serialization._get_layout", ("torch.sparse_coo",), dynograd.sparse_coo, 0),
    ("numpy._core.multiarray.scalar", (INT16, b"\x01\x02"), numpy.int16(513), 0),
    ("_codecs.encode", ("abc", "latin-1"), b"abc", 3),
    ("_codecs.encode", ("é",), b"\xe9", 1),
    ("_codecs.encode", ("é", "utf-8"), b"\xc3\xa9", 1),
    ("builtins.bytes", (), b"", 0),
    ("builtins.bytearray", (), bytearray(), 0),
    ("builtins.bytearray", (b"abc",), bytearray(b"abc"), 3),
    ("builtins.bytearray", ("abc", "latin1"), bytearray(b"abc"), 6),
    ("builtins.set", (), set(), 0),
    ("builtins.set", ([1, 2],), {1, 2}, 200),
    ("builtins.frozenset", ((1, 2),), frozenset([1, 2]), 200),
    ("collections.OrderedDict", ([(1, 2), ("a", 3)],), {1: 2, "a": 3}, 400),
    ("collections.Counter", ({"a": 3},), {"a": 3}, 200),
    ("collections.deque", ([1, 2],), [1, 2], 16),
    ("collections.deque", ([1, 2, 3], 2), [2, 3], 24),
    ("builtins.complex", (1, 2.5), 1 + 2.5j, 0),
    ("builtins.range", (1, 7, 2), range(1, 7, 2), 0),
    ("builtins.slice", (1, None), slice(1, None), 0),
    ("datetime.timedelta", (1, 2, 3), datetime.timedelta(1, 2, 3), 0),
    ("datetime.timezone", (datetime.timedelta(hours=1),), ZONE, 0),
    ("decimal.Decimal", ("-1.50",), decimal.Decimal("-1.50"), 0),
]


@pytest.mark.parametrize("name, arguments, value, cost", GIVEN, ids=[f"{row[0]}{row[1]}" for row in GIVEN])
def test_what_comes_back_and_what_it_costs(name, arguments, value, cost):
    reader = machine()
    result = call(name, *arguments, reader=reader)
    assert type(result) is type(value) or name.startswith("collections.")
    assert (list(result) if isinstance(value, list) else result) == value
    assert reader.allowance == ROOM - 256 - cost
    if cost:
        with pytest.raises(CheckpointError, match="far more memory"):
            call(name, *arguments, reader=machine(255 + cost))


def test_a_time_keeps_its_zone():
    noon = datetime.time(12, 30, tzinfo=ZONE)
    day = datetime.datetime(2024, 2, 3, 4, 5, 6, 7, ZONE)
    assert call("datetime.time", *noon.__reduce__()[1]) == noon
    assert call("datetime.datetime", *day.__reduce__()[1]).isoformat() == day.isoformat()
    assert call("datetime.date", bytes([7, 232, 2, 3])) == datetime.date(2024, 2, 3)


def test_tensors():
    reader = machine()
    tensor = call("torch._utils._rebuild_tensor", STORAGE, 4, (2, 2), (4, 8), dynograd.uint8, reader=reader)
    assert tensor.tolist() == dynograd.arange(6.0).view(dynograd.uint8)[4:].as_strided((2, 2), (4, 8)).tolist()
    assert reader.allowance == ROOM - 256 - 1024
    assert call("torch._utils._rebuild_tensor", STORAGE, 20, (4,), (1,)).shape == (4,)
    assert call("torch._utils._rebuild_tensor", STORAGE, 0, (1,) * 64, (1,) * 64).ndim == 64
    empty = call("torch._utils._rebuild_tensor", STORAGE, 0, (0, 9), (100, 200))
    assert empty.shape == (0, 9) and empty.stride() == (9, 1)
    assert call("torch._utils._rebuild_tensor", UntypedStorage(3), 0, (3,), (1,)).dtype is dynograd.uint8
    parameter = call("torch._utils._rebuild_parameter", dynograd.zeros(2), False)
    assert isinstance(parameter, dynograd.nn.Parameter) and not parameter.requires_grad
    kept = call(
        "torch._utils._rebuild_parameter_with_state", dynograd.zeros(2), True, None, {"tag": 1, "_x": 2, "shape": 3}
    )
    assert kept.requires_grad and kept.tag == 1 and not hasattr(kept, "_x") and kept.shape == (2,)


def test_arrays():
    raw = bytes(range(12))
    reader = machine()
    array = call("numpy._core.numeric._frombuffer", bytearray(raw), INT16, (2, 3), "F", reader=reader)
    assert array.tolist() == numpy.frombuffer(raw, "<i2").reshape(2, 3, order="F").tolist()
    assert array.flags.f_contiguous and reader.allowance == ROOM - 256 - 12
    assert call("numpy._core.numeric._frombuffer", raw, INT16, (6,), "C").flags.writeable
    kind = call("numpy.dtype", "S3", False, True)
    assert kind == TEXTS and kind is not TEXTS
    assert call("numpy._core.numeric._frombuffer", b"", INT16, (0, 5), "C").shape == (0, 5)


STATES = [
    (numpy.dtype("i2").newbyteorder(), [3, "<"], "wrong state of a dtype"),
    (numpy.dtype("i2").newbyteorder(), (3,), "wrong state of a dtype"),
    (numpy.dtype("i2").newbyteorder(), (3, "?", None), "wrong state of a dtype"),
    (types.SimpleNamespace(), [1], "not a dict of names"),
    (types.SimpleNamespace(), {"__class__": 1}, "not a dict of names"),
    (types.SimpleNamespace(), {1: 1}, "not a dict of names"),
    (call("collections.OrderedDict"), [1], "the state of a dict is not a dict"),
    ([], {}, "sets the state of a list"),
]


@pytest.mark.parametrize("value, state, words", STATES)
def test_states_that_make_no_sense(value, state, words):
    reader = machine()
    reader.stack = [value, state]
    with pytest.raises((CheckpointError, TypeError), match=words):
        reader.build()


def test_states_are_set():
    for value, state, result in [
        (numpy.dtype("<i2", copy=True), (3, ">", None), numpy.dtype(">i2")),
        (types.SimpleNamespace(a=1), {"b": 2}, types.SimpleNamespace(a=1, b=2)),
    ]:
        reader = machine()
        reader.stack = [value, state]
        reader.build()
        assert reader.stack == [value] and value == result
    ordered = call("collections.OrderedDict")
    reader = machine()
    reader.stack = [ordered, {"_metadata": 5, "other": 6}]
    reader.build()
    assert ordered._metadata == 5 and not hasattr(ordered, "other")


def test_bytes_of_an_archive_stand_behind_names_and_padding():
    """PyTorch pads the heads of its entries so that each begins at a multiple of 64."""
    archive, padded = io.BytesIO(), io.BytesIO()
    value = {"w": dynograd.arange(6.0).reshape(2, 3)}
    dynograd.save(value, archive, format="pt")
    with zipfile.ZipFile(archive) as files, zipfile.ZipFile(padded, "w") as copy:
        for number, entry in enumerate(files.infolist()):
            other = zipfile.ZipInfo(entry.filename)
            length = 7 * number
            other.extra = b"FB" + length.to_bytes(2, "little") + b"Z" * length
            copy.writestr(other, files.read(entry))
    assert dynograd.load(io.BytesIO(padded.getvalue()))["w"].tolist() == value["w"].tolist()


def test_a_pickle_is_said_to_be_one(tmp_path):
    for start in (b"\x80\x04", b"\x80"):
        (tmp_path / "x").write_bytes(start + b"N." * 20)
        with pytest.raises(CheckpointError, match="pickle"):
            dynograd.load(tmp_path / "x")
