"""Checkpoints of PyTorch, written here without it: their tensors come back, hostile and damaged ones are refused, and nothing runs."""

from __future__ import annotations

import argparse
import collections
import datetime
import decimal
import fractions
import io
import pathlib
import pickle
import random
import struct
import subprocess
import sys
import types
import zipfile
from collections import OrderedDict

import ml_dtypes
import numpy
import pytest

import dynograd as dg
from dynograd.errors import CheckpointError

KINDS = {
    "FloatStorage": numpy.float32,
    "DoubleStorage": numpy.float64,
    "HalfStorage": numpy.float16,
    "BFloat16Storage": ml_dtypes.bfloat16,
    "LongStorage": numpy.int64,
    "IntStorage": numpy.int32,
    "ShortStorage": numpy.int16,
    "CharStorage": numpy.int8,
    "ByteStorage": numpy.uint8,
    "BoolStorage": numpy.bool_,
    "ComplexFloatStorage": numpy.complex64,
    "ComplexDoubleStorage": numpy.complex128,
    "UntypedStorage": numpy.uint8,
}


class Named:
    """Pickled as a name."""

    def __init__(self, module, name):
        self.module, self.name = module, name


class Called:
    """Pickled as a call of a name."""

    def __init__(self, module, name, *arguments):
        self.function, self.arguments = Named(module, name), arguments


class Stored:
    """Pickled as a storage's persistent id."""

    def __init__(self, key, values, kind, location="cpu", count=None):
        self.key, self.values, self.kind, self.location = key, numpy.asarray(values, KINDS[kind]), kind, location
        self.count = self.values.size if count is None else count


class Writer(pickle._Pickler):
    """Pickles without importing what it names."""

    def __init__(self, file, legacy=False):
        super().__init__(file, protocol=2)
        self.legacy, self.stored = legacy, {}

    def persistent_id(self, value):
        if not isinstance(value, Stored):
            return None
        self.stored[value.key] = value
        result = ("storage", Named("torch", value.kind), value.key, value.location, value.count)
        return (*result, None) if self.legacy else result

    def save(self, value, **options):
        if isinstance(value, Named):
            self.write(f"c{value.module}\n{value.name}\n".encode())
        elif isinstance(value, Called):
            self.save(value.function)
            self.save(tuple(value.arguments))
            self.write(b"R")
        else:
            super().save(value, **options)


def tensor(storage, size, stride, offset=0, requires_grad=False):
    return Called("torch._utils", "_rebuild_tensor_v2", storage, offset, size, stride, requires_grad, OrderedDict())


def zipped(value, order="little", raw=None, change=lambda files: None, method=zipfile.ZIP_STORED):
    pickled = io.BytesIO()
    writer = Writer(pickled)
    writer.dump(value)
    files = {"archive/data.pkl": pickled.getvalue() if raw is None else raw}
    files["archive/byteorder"] = order.encode()
    for key, stored in writer.stored.items():
        values = stored.values.byteswap() if order == "big" else stored.values
        files[f"archive/data/{key}"] = values.tobytes()
    files["archive/version"] = b"3\n"
    change(files)
    created = io.BytesIO()
    with zipfile.ZipFile(created, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return created.getvalue()


def legacy(value):
    created = io.BytesIO()
    for element in (
        0x1950A86A20F9469CFC6C,
        1001,
        {"protocol_version": 1001, "little_endian": True, "type_sizes": {"int": 4}},
    ):
        pickle.dump(element, created, protocol=2)
    writer = Writer(created, legacy=True)
    writer.dump(value)
    pickle.dump(list(writer.stored), created, protocol=2)
    for stored in writer.stored.values():
        created.write(struct.pack("<q", stored.values.size) + stored.values.tobytes())
    return created.getvalue()


FORMATS = {"zip": zipped, "legacy": legacy, "zip, big-endian": lambda value: zipped(value, "big")}


def load(raw, **options):
    return dg.load(io.BytesIO(raw), **options)


def checkpoint():
    shared = Stored("0", range(12), "FloatStorage")
    return OrderedDict(
        whole=tensor(shared, (3, 4), (4, 1)),
        turned=tensor(shared, (4, 2), (1, 4), 4),
        bias=Called("torch._utils", "_rebuild_parameter", tensor(Stored("1", [1, 2], "BFloat16Storage"), (2,), (1,)), True, OrderedDict()),
        spread=tensor(Stored("2", [7], "LongStorage"), (5,), (0,)),
        empty=tensor(Stored("3", [], "HalfStorage"), (0, 3), (3, 1)),
        number=tensor(Stored("4", [3], "IntStorage"), (), ()),
        plain={"lr": 0.1, "betas": (0.9, 0.999), "names": ["a", None, True], 3: 1 << 70},
        size=Called("torch", "Size", (1, 2)),
        dtype=Named("torch", "float16"),
        device=Called("torch", "device", "cuda", 1),
        raw=b"\x00\xff",
    )  # fmt: skip


@pytest.mark.parametrize("form", FORMATS)
def test_a_checkpoint_comes_back(tmp_path, form):
    (tmp_path / "model.pt").write_bytes(FORMATS[form](checkpoint()))
    for result in (dg.load(tmp_path / "model.pt"), load(FORMATS[form](checkpoint()), weights_only=False)):
        assert result["whole"].tolist() == numpy.arange(12.0).reshape(3, 4).tolist()
        assert result["turned"].tolist() == numpy.arange(12.0)[4:].reshape(2, 4).T.tolist() and result[
            "turned"
        ].stride() == (1, 4)
        result["turned"][0, 0] = 50.0
        assert result["whole"][1, 0].item() == 50.0
        assert (
            type(result["bias"]) is dg.nn.Parameter
            and result["bias"].requires_grad
            and result["bias"].dtype is dg.bfloat16
        )
        assert result["spread"].tolist() == [7] * 5 and result["spread"].stride() == (0,)
        assert tuple(result["empty"].shape) == (0, 3) and result["number"].item() == 3
        assert result["plain"] == {"lr": 0.1, "betas": (0.9, 0.999), "names": ["a", None, True], 3: 1 << 70}
        assert result["size"] == dg.Size([1, 2]) and result["dtype"] is dg.float16 and result["raw"] == b"\x00\xff"
        assert str(result["device"]) == "cuda:1"


LENGTHS = [0, 1, 255, 256, 70_000]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_texts_and_bytes_of_any_length(protocol):
    kinds = (str, bytes) if protocol > 2 else (str,)  # the second protocol has no bytes of its own
    for value in [
        kind(bytes(length).decode() if kind is str else bytes(length)) for length in LENGTHS for kind in kinds
    ]:
        assert load(zipped(None, raw=pickle.dumps([value], protocol))) == [value]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMATS)
def test_every_dtype(kind, form):
    values = numpy.array([0, 1, 1, 0], KINDS[kind])
    result = load(FORMATS[form](tensor(Stored("0", values, kind), (4,), (1,))))
    assert result.numpy().tobytes() == values.tobytes() and result.numpy().dtype == values.dtype


@pytest.mark.parametrize("form", FORMATS)
def test_numpy_arrays_and_sets(form):
    value = {
        "a": numpy.arange(6.0).reshape(2, 3).T,
        "s": numpy.float32(2.5),
        "set": {1, "x"},
        "z": 1 + 2j,
        "b": bytearray(b"1"),
    }
    result = load(FORMATS[form](value))
    assert result.pop("a").tolist() == value.pop("a").tolist() and result == value


def test_large_storages_are_read_in_shares(tmp_path, monkeypatch):
    monkeypatch.setattr("dynograd.base.checksums._SHARE", 3 << 20)
    values = numpy.random.default_rng(0).integers(0, 255, 10_000_001).astype(numpy.uint8)
    raw = zipped([tensor(Stored("0", values, "ByteStorage"), (values.size,), (1,))])
    (tmp_path / "x").write_bytes(raw)
    assert dg.load(tmp_path / "x")[0].numpy().tobytes() == values.tobytes()
    broken = bytearray(raw)
    broken[9_000_000] ^= 4
    (tmp_path / "x").write_bytes(broken)
    with pytest.raises(CheckpointError, match=r"bytes of data/0 have checksum \w+, expected \w+"):
        dg.load(tmp_path / "x")


def test_memory_of_the_file(tmp_path):
    """With mmap=True tensors lie in the file's pages; what is written into them stays in memory."""
    raw = zipped(checkpoint())
    (tmp_path / "model.pt").write_bytes(raw)
    right, result = load(raw), dg.load(tmp_path / "model.pt", mmap=True)
    assert summary(result) == summary(right)
    result["whole"][0, 0] = 50.0
    assert result["whole"][0, 0].item() == 50.0 and (tmp_path / "model.pt").read_bytes() == raw
    assert summary(dg.load(tmp_path / "model.pt", mmap=True)) == summary(right)
    (tmp_path / "other.pt").write_bytes(zipped(checkpoint(), "big"))
    assert summary(dg.load(tmp_path / "other.pt", mmap=True)) == summary(right)
    (tmp_path / "old.pt").write_bytes(legacy(checkpoint()))
    with pytest.raises(
        RuntimeError, match="mmap=True can only be used with files that torch.save wrote as zip.*old.pt"
    ):
        dg.load(tmp_path / "old.pt", mmap=True)


def test_where_tensors_go():
    raw = zipped(tensor(Stored("0", [1], "FloatStorage", "cuda:0"), (1,), (1,)))
    assert load(raw, map_location="cpu").tolist() == [1.0]
    assert load(raw, map_location={"cuda:0": "cpu"}).device.type == "cpu"
    assert load(raw, map_location=lambda storage, name: storage).device.type == "cpu"
    if not dg.cuda.is_available():
        with pytest.warns(UserWarning, match="saved on cuda:0"):
            load(raw, map_location=lambda storage, name: None)
        with pytest.warns(UserWarning, match="saved on cuda:0"):
            assert load(raw).device.type == "cpu"


def test_archives_without_checksums():
    raw = bytearray(zipped(tensor(Stored("0", [1, 2], "FloatStorage"), (2,), (1,))))
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        for info in archive.infolist():
            while (at := raw.find(struct.pack("<I", info.CRC))) >= 0:
                raw[at : at + 4] = bytes(4)
    assert load(bytes(raw)).tolist() == [1.0, 2.0]


def test_state_dict_versions_are_kept():
    state = Called("collections", "OrderedDict")
    raw = io.BytesIO()
    Writer(raw).dump(state)
    metadata = pickle.dumps({"_metadata": {"0": {"version": 2}}}, 2)[2:-1]
    result = load(zipped(None, raw=raw.getvalue()[:-1] + metadata + b"b."))
    assert result._metadata["0"] == {"version": 2}


# --- plain values of Python and NumPy ------------------------------------------------------------------------------------------------

PLAIN = [
    collections.defaultdict(list, {"losses": [1.0, 2.0]}),
    collections.defaultdict(None, {1: 2}),
    *[collections.defaultdict(kind, {"a": kind()}) for kind in (int, float, str, bool, dict, tuple, set, frozenset)],
    *[collections.defaultdict(kind, {"a": kind()}) for kind in (bytes, bytearray, complex, OrderedDict, collections.Counter)],
    collections.Counter("aab"),
    collections.deque([1, [2]], maxlen=4),
    collections.deque(),
    {1, 2},
    frozenset([1, 2]),
    slice(1, None, 2),
    range(3, 9, 2),
    Ellipsis,
    {"kind": float, "numpy": numpy.float32, "dtype": numpy.dtype(">f8"), "text": numpy.dtype("<U5")},
    datetime.date(2020, 2, 29),
    datetime.time(3, 4, 5, 6),
    datetime.datetime(2020, 1, 2, 3, 4, 5, 6),
    datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=-3), "west")),
    datetime.timedelta(-1, 2, 3),
    pathlib.Path("/runs/one"),
    pathlib.PurePosixPath("a/b"),
    pathlib.PureWindowsPath("a/b"),
    {pathlib.Path("a"): 1, datetime.date(2020, 1, 1): 2, fractions.Fraction(1, 3): 3, decimal.Decimal("0.1"): 4, range(2): 5},
    fractions.Fraction(-1, 3),
    *[decimal.Decimal(text) for text in ("-1.50", "1E+20", "Infinity", "0E-9")],
    argparse.Namespace(lr=0.1, layers=[1, 2], path=pathlib.Path("a")),
    types.SimpleNamespace(lr=0.1, inner=argparse.Namespace(a=1)),
    [numpy.float32(2), numpy.arange(3), numpy.array(["a", "bb"]), numpy.bool_(True)],
]  # fmt: skip


@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize("value", PLAIN, ids=lambda value: f"{type(value).__name__} {value!r:.40}")
def test_plain_values(value, protocol):
    result = load(zipped(None, raw=pickle.dumps(value, protocol)))
    assert type(result) is type(value) and repr(result) == repr(value)
    if isinstance(value, collections.defaultdict):
        assert result.default_factory is value.default_factory


def test_containers_in_one_another_hold_tensors():
    weight = Stored("0", [1, 2], "FloatStorage")
    value = {"log": collections.defaultdict(list, {"w": [tensor(weight, (2,), (1,))]}), "args": argparse.Namespace(a=1)}
    for form in FORMATS:
        result = load(FORMATS[form](value))
        assert result["log"]["w"][0].tolist() == [1.0, 2.0] and result["log"]["new"] == [] and result["args"].a == 1


def test_storages_themselves():
    stored = Stored("0", [1, 2], "FloatStorage")
    for form in FORMATS:
        result = load(FORMATS[form]([stored, tensor(stored, (2,), (1,))]))
        assert type(result[0]) is dg.TypedStorage and result[0].tolist() == [1.0, 2.0]
        assert result[1].untyped_storage() == result[0].untyped()
    untyped = Stored("0", [1, 2], "UntypedStorage")
    assert load(zipped(untyped)).tolist() == [1, 2] and type(load(zipped(untyped))) is dg.UntypedStorage


def sparse(layout, *parts):
    return Called("torch._utils", "_rebuild_sparse_tensor", Called("torch.serialization", "_get_layout", layout), parts)


def whole(*values):
    return tensor(Stored("ab"[len(values) == 2], values, "LongStorage"), (len(values),), (1,))


def test_pickles_of_python_that_hold_tensors():
    """`pickle.dumps(tensor)` with PyTorch: the storage is a file of its own, in the form before 1.6."""
    storage = Called("torch.storage", "_load_from_bytes", legacy(Stored("0", [0.0, 1.0, 2.0], "FloatStorage")))
    pickled = io.BytesIO()
    Writer(pickled).dump({"w": tensor(storage, (3,), (1,))})
    script = "import sys, pickle, dynograd.as_torch; print(pickle.load(sys.stdin.buffer))"
    done = subprocess.run([sys.executable, "-c", script], input=pickled.getvalue(), capture_output=True, check=True)
    assert done.stdout.decode().strip() == "{'w': tensor([0., 1., 2.])}"


def test_where_a_map_location_puts_storages():
    saved = zipped({"w": tensor(Stored("0", [1.0, 2.0], "FloatStorage", "cuda:0"), (2,), (1,))})
    places = []

    def on_cpu(storage, place):
        places.append((place, dg.serialization.location_tag(storage)))
        return dg.serialization.default_restore_location(storage, "cpu")

    assert dg.load(io.BytesIO(saved), map_location=on_cpu)["w"].tolist() == [1.0, 2.0]
    assert places == [("cuda:0", "cpu")]


def test_sparse_and_nested_tensors():
    values = tensor(Stored("0", [5, 6], "FloatStorage"), (2,), (1,))
    places = tensor(Stored("1", [0, 1, 2, 0], "LongStorage"), (2, 2), (2, 1))
    size = Called("torch", "Size", (2, 3))
    for form in FORMATS:
        result = load(FORMATS[form]([sparse("torch.sparse_coo", places, values, size, True), values]))[0]
        assert result.layout is dg.sparse_coo and result.to_dense().tolist() == [[0, 0, 5], [6, 0, 0]]
        result = load(FORMATS[form](sparse("torch.sparse_csr", whole(0, 1, 2), whole(2, 0), values, size)))
        assert result.layout is dg.sparse_csr and result.to_dense().tolist() == [[0, 0, 5], [6, 0, 0]]
        shape = tensor(Stored("2", [1, 1], "LongStorage"), (2, 1), (1, 1))
        nested = Called("torch._utils", "_rebuild_nested_tensor", values, shape, shape, whole(0, 1))
        assert [row.tolist() for row in load(FORMATS[form](nested)).unbind()] == [[5.0], [6.0]]


# --- hostile files ----------------------------------------------------------------------------------------------------------------

ONE = Stored("0", range(4), "FloatStorage")
HOSTILE_CALLS = [
    ("os", "system", "true"),
    ("posix", "system", "true"),
    ("nt", "system", "true"),
    ("subprocess", "Popen", ["true"]),
    ("subprocess", "check_output", ["true"]),
    ("builtins", "eval", "1"),
    ("builtins", "exec", "1"),
    ("__builtin__", "eval", "1"),
    ("builtins", "compile", "1", "x", "eval"),
    ("builtins", "getattr", "x", "upper"),
    ("builtins", "__import__", "os"),
    ("builtins", "open", "made", "w"),
    ("importlib", "import_module", "this"),
    ("operator", "attrgetter", "system"),
    ("functools", "partial", "x"),
    ("types", "FunctionType", 1, 2),
    ("pickle", "loads", b"N."),
    ("torch", "load", "x"),
    ("torch.storage", "_load_from_bytes", b"x"),
    ("torch.hub", "load", "a", "b"),
    ("torch._utils", "_rebuild_wrapper_subclass", 1),
    ("numpy", "load", "x"),
    ("webbrowser", "open", "x"),
    ("copyreg", "_reconstructor", 1, 2, 3),
    ("runpy", "_run_code", "1", {}),
    ("torch._utils._rebuild_tensor_v2.__globals__", "get", "os"),
    ("collections", "OrderedDict.__init__", 1),
    ("builtins", "setattr", "x", "y", 1),
    ("builtins", "globals"),
    ("builtins", "vars", "x"),
    ("builtins", "breakpoint"),
    ("shutil", "rmtree", "made"),
    ("socket", "socket"),
    ("ctypes", "CDLL", "libc.so.6"),
    ("code", "interact"),
    ("pty", "spawn", "true"),
    ("torch._dynamo", "optimize", "x"),
    ("torch.serialization", "load", "x"),
    ("numpy.f2py.crackfortran", "getlincoef", "1", {}),
    ("dynograd", "load", "x"),
    ("dynograd.hub", "load", "a", "b"),
    ("dill._dill", "_create_function", 1),
    ("asyncio.unix_events", "_UnixSubprocessTransport", 1),
]  # fmt: skip
HOSTILE = {f"{module}.{name}": Called(module, name, *rest) for module, name, *rest in HOSTILE_CALLS}
HOSTILE |= {
    "a call of data": Called("torch", "FloatStorage", 1 << 60),
    "a function left over": [Named("torch", "FloatStorage")],
    "negative size": tensor(ONE, (-1,), (1,)),
    "negative stride": tensor(ONE, (2,), (-1,), 3),
    "negative offset": tensor(ONE, (2,), (1,), -1),
    "beyond the storage": tensor(ONE, (5,), (1,)),
    "strides beyond the storage": tensor(ONE, (2, 2), (3, 1)),
    "offset beyond the storage": tensor(ONE, (1,), (1,), 4),
    "huge size": tensor(ONE, (1 << 61,), (1,)),
    "too huge": tensor(ONE, (1 << 40, 1 << 40), (0, 0)),
    "many dims": tensor(ONE, (1,) * 65, (1,) * 65),
    "huge storage": tensor(Stored("0", [1], "FloatStorage", count=1 << 50), (1,), (1,)),
    "negative storage": tensor(Stored("0", [1], "FloatStorage", count=-1), (1,), (1,)),
    "a path as key": tensor(Stored("../../data.pkl", [1], "FloatStorage", count=2), (1,), (1,)),
    "a device that is none": tensor(Stored("0", [1], "FloatStorage", "__import__('os')"), (1,), (1,)),
    "gradient of integers": tensor(Stored("0", [1], "LongStorage"), (1,), (1,), 0, True),
    "objects in NumPy": Called("numpy", "dtype", "O8", False, True),
    "a fake dtype": tensor(ONE, "12", "12"),
    "a parameter of nothing": Called("torch._utils", "_rebuild_parameter", 3, True, None),
    "a call in a call": Called("torch._utils", "_rebuild_tensor_v2", Called("os", "system", "true"), 0, (1,), (1,)),
    "a call as a key": {1: {(Called("os", "getcwd"),): 2}},
    "a call among strides": tensor(ONE, (1,), Called("builtins", "list")),
    "size of text": tensor(ONE, ("1",), (1,)),
    "size of truth": tensor(ONE, (True,), (1,)),
    "a float as a size": tensor(ONE, (1.0,), (1,)),
    "more sizes than strides": tensor(ONE, (1, 1), (1,)),
    "windows beyond the storage": tensor(ONE, (2, 4), (1, 1)),
    "product of huge strides": tensor(ONE, (2, 2), ((1 << 62) - 1, (1 << 62) - 1)),
    "a dict as storage": tensor({}, (1,), (1,)),
    "a name as storage": tensor(Named("torch", "FloatStorage"), (1,), (1,)),
    "a NumPy array longer than its bytes": Called(
        "numpy._core.numeric", "_frombuffer", b"1234", Called("numpy", "dtype", "f8", False, True), (1 << 40,), "C"
    ),
    "a NumPy dtype of fields": Called("numpy", "dtype", [("a", "f8")], False, True),
    "calls through a type": Called("torch._tensor", "_rebuild_from_type_v2", "x", 1, 2, 3),
}
RAW = {
    "deep": b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".",
    "contains itself": b"\x80\x02]q\x00h\x00a.",
    "a key of many tuples": b"\x80\x02}))" + b"q\x000" + b"h\x00h\x00\x86q\x00" * 100 + b"Ns.",
    "copies of text": b"\x80\x02](X\x00\x00\x10\x00" + b"a" * (1 << 20) + b"q\x000" + b"c_codecs\nencode\nq\x010" + b"h\x01h\x00\x85R" * 500 + b"e.",
    "a long text": b"\x80\x02X\xff\xff\xff\xff.",
    "a longer text": b"\x80\x04\x8d" + b"\xff" * 8 + b".",
    "a long number": b"\x80\x02\x8b\xff\xff\xff\x7f.",
    "a negative length": b"\x80\x02\x8b\xff\xff\xff\xff.",
    "an instance": b"(S'true'\nios\nsystem\n.",
    "an object": b"\x80\x02(cos\nsystem\nX\x04\x00\x00\x00trueo.",
    "new with keywords": b"\x80\x04cos\nsystem\n)}\x92.",
    "a registered class": b"\x80\x02\x82\x01.",
    "stack of names": b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.",
    "the state of a list": b"\x80\x02]}b.",
    "no end": b"\x80\x02]",
    "nothing": b"",
    "left over": b"\x80\x02NN.",
    "text as a number": b"\x80\x02I1\n.",
    "items of a number": b"\x80\x02K\x01K\x02K\x03s.",
    "items of a name": b"\x80\x02ctorch\nFloatStorage\nK\x02K\x03s.",
    "appending to a tuple": b"\x80\x02)K\x01a.",
    "adding to a dict": b"\x80\x04}(K\x01\x90.",
    "the state of a dict": b"\x80\x02}}b.",
    "the state of a name": b"\x80\x02ctorch\nFloatStorage\n}X\x04\x00\x00\x00nameX\x09\x00\x00\x00os.systemsb.",
    "the dict of a class": b"\x80\x02ccollections\nOrderedDict\n)R}X\x09\x00\x00\x00__class__cos\nsystem\nsb.",
    "a name made of parts": b"\x80\x04\x8c\x05torch\x8c\x0bnn.__class__\x93.",
    "a name of numbers": b"\x80\x04K\x01K\x02\x93.",
    "a name of a call": b"\x80\x04ccollections\nOrderedDict\n)R\x8c\x06system\x93.",
    "a memo far out": b"\x80\x02Nr\xff\xff\xff\xffj\xfe\xff\xff\xff.",
    "a memo of nothing": b"\x80\x02h\x05.",
    "a call without arguments": b"\x80\x02cos\nsystem\nR.",
    "a call of a number": b"\x80\x02K\x01)R.",
    "arguments that are a list": b"\x80\x02ccollections\nOrderedDict\n]R.",
    "a call of a type": b"\x80\x02c__builtin__\nint\nX\x01\x00\x00\x001\x85R.",
    "a default made by a function": b"\x80\x02ccollections\ndefaultdict\ncos\nsystem\n\x85R.",
    "a default made by a call": b"\x80\x02ccollections\ndefaultdict\nc_codecs\nencode\n\x85R.",
    "a default that is a number": b"\x80\x02ccollections\ndefaultdict\nK\x01\x85R.",
    "a deque of a number": b"\x80\x02ccollections\ndeque\nK\x01\x85R.",
    "a deque that contains itself": b"\x80\x02ccollections\ndeque\n)Rq\x00h\x00a.",
    "a namespace that contains itself": b"\x80\x02cargparse\nNamespace\n)\x81q\x00}X\x01\x00\x00\x00ah\x00sb.",
    "a namespace of another class": b"\x80\x02cargparse\nNamespace\n)\x81}X\x09\x00\x00\x00__class__K\x01sb.",
    "a namespace of numbers": b"\x80\x02cargparse\nNamespace\n)\x81}K\x01K\x01sb.",
    "a name in a namespace": b"\x80\x02ctypes\nSimpleNamespace\n)R}X\x01\x00\x00\x00ac_codecs\nencode\nsb.",
    "a name in a slice": b"\x80\x02c__builtin__\nslice\nc_codecs\nencode\n\x85R.",
    "a range of text": b"\x80\x02c__builtin__\nxrange\nX\x01\x00\x00\x001\x85R.",
    "a date of text": b"\x80\x02cdatetime\ndate\nX\x04\x00\x00\x00abcd\x85R.",
    "a date in month 99": b"\x80\x03cdatetime\ndate\nC\x04\x07\xe4c\x01\x85R.",
    "a time in a zone of text": b"\x80\x03cdatetime\ntime\nC\x06\x00\x00\x00\x00\x00\x00X\x01\x00\x00\x00a\x86R.",
    "a zone of text": b"\x80\x02cdatetime\ntimezone\nX\x01\x00\x00\x00a\x85R.",
    "a fraction of a power": b"\x80\x02cfractions\nFraction\nX\x0c\x00\x00\x001e9999999999\x85R.",
    "a decimal of words": b"\x80\x02cdecimal\nDecimal\nX\x03\x00\x00\x00one\x85R.",
    "a path of numbers": b"\x80\x02cpathlib\nPosixPath\nK\x01\x85R.",
    "a layout of blocks": b"\x80\x02ctorch.serialization\n_get_layout\nX\x10\x00\x00\x00torch.sparse_bsr\x85R.",
    "a sparse tensor of numbers": b"\x80\x02ctorch._utils\n_rebuild_sparse_tensor\nK\x01K\x01\x86R.",
    "a nested tensor of numbers": b"\x80\x02ctorch._utils\n_rebuild_nested_tensor\n(K\x01K\x01K\x01K\x01tR.",
    "a popped mark": b"\x80\x02(0.",
    "marks alone": b"\x80\x02" + b"(" * 1000 + b".",
    "a persistent id of text": b"\x80\x02Pos.system\n.",
    "a persistent id of a dict": b"\x80\x02}Q.",
    "a frame of all bytes": b"\x80\x04\x95" + b"\xff" * 8 + b"N",
    "an opcode of tomorrow": b"\x80\x05\x97.",
    "sets of sets": b"\x80\x04(\x8f\x91.",
    "doubling tuples": b"\x80\x02)q\x000" + b"h\x00h\x00\x86q\x000" * 5000 + b"h\x00.",
}  # fmt: skip


@pytest.fixture(scope="module")
def executed():
    """What ran while files were loaded: events of the interpreter that no reading of data causes."""
    events, watched = (
        [],
        set(
            "exec compile import open os.system subprocess.Popen pickle.find_class os.exec os.fork os.posix_spawn os.remove".split()
        )
        | set(
            "ctypes.dlopen socket.connect socket.__new__ shutil.rmtree os.rename os.mkdir os.listdir code.__new__".split()
        ),
    )
    state = types.SimpleNamespace(on=False, events=events)

    def hook(event, arguments):
        if state.on and event in watched:
            events.append((event, str(arguments)[:100]))

    sys.addaudithook(hook)
    load(zipped(checkpoint()))
    load(legacy(checkpoint()))
    return state


def refused(raw, executed):
    executed.events.clear()
    executed.on = True
    try:
        with pytest.raises(CheckpointError) as caught:
            load(raw)
    finally:
        executed.on = False
    assert executed.events == []
    return str(caught.value)


@pytest.mark.parametrize("form", ["zip", "legacy"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_run_nothing(name, form, executed):
    if form == "legacy" and name in ("huge storage", "negative storage", "a path as key"):
        pytest.skip("the zip form's test")
    message = refused(FORMATS[form]({"weight": HOSTILE[name]}), executed)
    assert "the given file" in message
    if "." in name:
        assert name.replace("__builtin__", "builtins") in message and "safetensors" in message


@pytest.mark.parametrize("name", RAW)
def test_hostile_pickles_run_nothing(name, executed):
    assert "the given file" in refused(zipped(None, raw=RAW[name]), executed)


def test_damaged_sparse_and_nested_tensors():
    values = tensor(Stored("0", [5, 6], "FloatStorage"), (2,), (1,))
    size = Called("torch", "Size", (2, 3))
    places = tensor(Stored("1", [0, 1, 2, 9], "LongStorage"), (2, 2), (2, 1))
    shape = tensor(Stored("2", [1, 2], "LongStorage"), (2, 1), (1, 1))
    steps = tensor(Stored("3", [1, 1], "LongStorage"), (2, 1), (1, 1))
    nested = "torch._utils", "_rebuild_nested_tensor", values
    rows = [
        (sparse("torch.sparse_coo", places, values, size, True), "a sparse tensor in it makes no sense.*9"),
        (
            sparse("torch.sparse_csr", whole(0, 1, 7), whole(2, 0), values, size),
            "a sparse tensor in it makes no sense.*number of values, 2",
        ),
        (sparse("torch.sparse_bsr", values, values, values, size), "layout 'torch.sparse_bsr'.*to_dense"),
        (Called(*nested, shape, steps, whole(0, 1)), r"a row of size \[2\] at 1 of 2 elements"),
        (Called(*nested, shape, shape, whole(0, 0)), r"a row of size \[2\] and strides \[2\]"),
    ]
    for value, message in rows:
        with pytest.raises(CheckpointError, match=message):
            load(zipped(value))


def test_files_that_are_not_read():
    raw = zipped(checkpoint())
    rows = [
        (zipped(None, method=zipfile.ZIP_DEFLATED), "compressed.*zip -0"),
        (zipped(checkpoint(), change=lambda files: files.pop("archive/data/1")), "lacks the storage '1'"),
        (zipped(None, change=lambda files: files.update({"archive/constants.pkl": b""})), "TorchScript"),
        (zipped(None, change=lambda files: files.update({"archive/byteorder": b"middle"})), "byteorder is b'middle'"),
        (zipped(None, change=lambda files: files.update({"archive/version": b"99"})), "version b'99'.*up to 10"),
        (zipped(None, change=lambda files: files.pop("archive/data.pkl")), "without a data.pkl"),
        (zipped(None, raw=b"N.N."), "goes on after its end"),
        (zipped(None, raw=b"\x80\x03}(X\x01\x00\x00\x00au."), "is damaged: its pickle sets items of a dict"),
        (zipped(None, raw=b"\x80\x03](K\x00X\x01\x00\x00\x00au."), "is damaged: its pickle sets items of a list"),
        (zipped(checkpoint(), change=lambda files: files.update({"archive/../../etc/x": b"x", "/tmp/x": b"x"})), None),
        (zipped(None, change=lambda files: files.update({"other/data.pkl": b"N."})), "without a data.pkl"),
        (bomb(), "compressed or encrypted.*zip -0"),
        (doubled("archive/data/0"), "entries of the archive overlap|two names"),
        (raw[: len(raw) // 2], "truncated or damaged"),
        (legacy(checkpoint())[:-1], "storage '4' of 4 bytes breaks off"),
        (legacy(checkpoint()) + b"x", "1 bytes are left over"),
    ]
    for content, words in rows:
        if words is None:  # files of other names are not looked at, and never written anywhere
            assert summary(load(content)) == summary(load(raw))
            continue
        with pytest.raises(CheckpointError, match=words):
            load(content)


def bomb():
    """A gigabyte of zeros in a megabyte, as the data of a storage."""
    created = io.BytesIO()
    pickled = io.BytesIO()
    Writer(pickled).dump(tensor(Stored("0", [], "ByteStorage", count=1 << 28), (1 << 28,), (1,)))
    with zipfile.ZipFile(created, "w") as archive:
        archive.writestr("archive/data.pkl", pickled.getvalue())
        with archive.open(zipfile.ZipInfo("archive/data/0"), "w", force_zip64=True) as entry:
            entry.write(b"")
        info = zipfile.ZipInfo("archive/data/1")
        info.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(info, bytes(1 << 24))
    return created.getvalue()


def doubled(name):
    """Two entries of one name."""
    created = io.BytesIO(zipped(checkpoint()))
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(created, "a") as archive:
        archive.writestr(name, b"other bytes here")
    return created.getvalue()


def summary(value):
    if isinstance(value, dg.Tensor):
        return type(value).__name__, str(value.dtype), value.stride(), value.detach().numpy().tobytes()
    if isinstance(value, dict):
        return [(key, summary(element)) for key, element in value.items()]
    return repr(value)


@pytest.mark.parametrize("count", [300, pytest.param(5000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("form", ["zip", "legacy"])
def test_mutated_files_are_refused_or_unchanged(form, count):
    """Bits, bytes, cuts, repeats and numbers of the format's own: a CheckpointError, or the very tensors."""
    raw, seeded = FORMATS[form](checkpoint()), random.Random(count)
    right, counts = summary(load(raw)), [0, 0]
    for _ in range(count):
        broken = bytearray(raw)
        kind = seeded.randrange(5)
        at = seeded.randrange(len(raw))
        if kind == 0:
            broken[at] ^= 1 << seeded.randrange(8)
        elif kind == 1:
            broken[at] = seeded.randrange(256)
        elif kind == 2:
            del broken[at : at + seeded.randrange(1, 50)]
        elif kind == 3:
            broken[at:at] = broken[at : at + seeded.randrange(1, 50)]
        else:
            broken[at : at + 4] = struct.pack("<i", seeded.choice([-1, 0, 1 << 30, -(1 << 31), 65535]))
        try:
            result = summary(load(bytes(broken), map_location="cpu"))
        except CheckpointError:
            counts[0] += 1
            continue
        counts[1] += 1
        if form == "zip":  # the older format has no checksums
            assert result == right
    assert counts[0] > count / 3


def test_the_converter(tmp_path):
    (tmp_path / "a.pt").write_bytes(zipped({"w": tensor(ONE, (2, 2), (1, 2))}))
    command = [sys.executable, "-m", "dynograd.convert", str(tmp_path / "a.pt"), str(tmp_path / "b.safetensors")]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.startswith(
        str(tmp_path / "b.safetensors")
    )
    from safetensors.numpy import load_file

    assert load_file(tmp_path / "b.safetensors")["w"].tolist() == [[0.0, 2.0], [1.0, 3.0]]
    (tmp_path / "a.pt").write_bytes(zipped(HOSTILE["os.system"]))
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 2 and "'os.system'" in result.stderr
