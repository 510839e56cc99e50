"""Files for PyTorch, written without it: they come back bit for bit, and hold only what `torch.load(weights_only=True)` takes."""

from __future__ import annotations

import collections
import errno
import io
import os
import pickletools
import signal
import subprocess
import sys
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy
import pytest

import dynograd as dg
from dynograd.base import dtypes, files
from dynograd.errors import CheckpointError
from dynograd.saving import torch_file_writer
from tests.support.system_faults import FaultyOs

# The opcodes of PyTorch's own reader, torch/_weights_only_unpickler.py.
OPCODES = """APPEND APPENDS BINFLOAT BINGET BININT BININT1 BININT2 BINPERSID BINPUT BINUNICODE BUILD EMPTY_DICT EMPTY_LIST EMPTY_SET EMPTY_TUPLE
    GLOBAL LONG1 LONG_BINGET LONG_BINPUT MARK NEWFALSE NEWOBJ NEWTRUE NONE PROTO REDUCE SETITEM SETITEMS SHORT_BINSTRING STOP TUPLE TUPLE1
    TUPLE2 TUPLE3""".split()
# The names that it takes without being told to.
GLOBALS = """collections OrderedDict|_codecs encode|__builtin__ bytearray|__builtin__ set|__builtin__ complex|torch Size|torch device|torch Tensor
    |torch.serialization _get_layout|torch._tensor _rebuild_from_type_v2|torch._utils _rebuild_tensor_v2|torch._utils _rebuild_tensor_v3
    |torch._utils _rebuild_parameter|torch._utils _rebuild_parameter_with_state|torch._utils _rebuild_sparse_tensor
    |torch._utils _rebuild_nested_tensor|torch.storage UntypedStorage"""
GLOBALS = {name.strip() for name in GLOBALS.split("|")}


def written(value):
    file = io.BytesIO()
    dg.save(value, file, format="pt")
    return file.getvalue()


def again(value):
    return dg.load(io.BytesIO(written(value)))


def checkpoint():
    """All that a file can hold: `tests/parity` has PyTorch read the same."""
    dg.manual_seed(0)
    model = dg.nn.Sequential(dg.nn.Linear(3, 4), dg.nn.BatchNorm1d(4), dg.nn.Embedding(5, 2))
    optimizer = dg.optim.AdamW(model[0].parameters(), lr=0.1)
    model[0](dg.ones(2, 3)).sum().backward()
    optimizer.step()
    base, bits = dg.arange(12.0), dg.arange(8, dtype=dg.int32)
    parameter, noted = dg.nn.Parameter(dg.ones(2)), dg.ones(2)
    parameter.tag, noted.note = "x", {"a": 1}
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "parameters": list(model.parameters()),
        "buffer": dg.nn.Buffer(dg.ones(2)),
        "views": [base, base[2:10:3], base.view(3, 4).t(), dg.ones(1).expand(4), dg.zeros(0, 3), dg.tensor(3.5)],
        "memory of two dtypes": [bits, bits.view(dg.float32)],
        "turned round": dg.from_numpy(numpy.arange(5)[::-1]),
        "tied": [parameter, parameter],
        "noted": noted,
        "leaf": dg.ones(2, requires_grad=True),
        "frozen": dg.nn.Parameter(dg.ones(2), requires_grad=False),
        "dtypes": {kind.name: dg.tensor([[0, 1, 2], [1, 0, 3]]).to(kind) for kind in (*dtypes.ALL, *dtypes.FLOAT8)},
        "sparse": [dg.eye(3).to_sparse(), dg.eye(3).to_sparse_csr(), dg.eye(3).to_sparse_csc()],
        "rows": dg.ragged_tensor([dg.ones(2, 3), dg.zeros(4, 3)]),
        "whole": [0, 255, 256, 65535, 65536, -1, -(2**31), 2**31, 2**63, -(2**63), 2**2000, True, False, None],
        "floats": [0.1, float("inf"), -0.0, 1 - 2j],
        "texts": ["", "ü", "\ud800", b"", b"\x00\xff", bytearray(b"ab")],
        "containers": [(), (1,), (1, (2, [3])), {1, 2}, {}, [], OrderedDict(a=1), {(1, "a"): 2, None: 3, 0.5: 4}],
        "names": [dg.float32, dg.float8_e5m2, dg.Size([1, 2]), dg.device("cpu"), dg.strided],
    }


def outline(value):
    """What must be the same on the other side; strides, bits and classes of tensors among it."""
    if hasattr(type(value), "__dynograd_rows__"):
        return [outline(row) for row in value.unbind()]
    if isinstance(value, dg.Tensor) and value.layout is not dg.strided:
        return str(value.layout), value.to_dense().tolist()
    if isinstance(value, dg.Tensor):
        kind = "Parameter" if isinstance(value, dg.nn.Parameter) else "Tensor"
        bits = value.detach().contiguous().numpy().tobytes()
        return (
            kind,
            value.dtype,
            value.requires_grad,
            tuple(value.shape),
            value.stride() if value.numel() else None,
            bits,
        )
    if isinstance(value, dict):
        return type(value), [(key, outline(entry)) for key, entry in value.items()], getattr(value, "_metadata", None)
    if type(value) in (list, tuple):
        return type(value), [outline(entry) for entry in value]
    return type(value), value


def test_what_is_written_comes_back():
    value = checkpoint()
    value["turned round"] = value["turned round"].clone()  # of backward strides: see below
    back = again(value)
    for name in value:
        assert outline(back[name]) == outline(value[name]), name
    assert back["tied"][0] is back["tied"][1] and back["tied"][0].tag == "x" and back["noted"].note == {"a": 1}
    again_twice = again(back)
    assert all(outline(again_twice[name]) == outline(value[name]) for name in value)


def test_memory_is_shared_again():
    back = again(checkpoint())
    whole, some, turned, *_ = back["views"]
    whole[5] = -1.0
    assert some[1].item() == -1.0 and turned[1, 1].item() == -1.0
    words, numbers = back["memory of two dtypes"]
    numbers[0] = 1.0
    assert words[0].item() == 0x3F800000


def test_backward_strides_are_written_forward():
    x = dg.from_numpy(numpy.arange(6).reshape(2, 3)[::-1, ::-1])
    assert again(x).tolist() == [[5, 4, 3], [2, 1, 0]] and again(x).stride() == (3, 1)


def test_an_unpickler_of_pytorchs_opcodes_can_read_it():
    with zipfile.ZipFile(io.BytesIO(written(checkpoint()))) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        text = archive.read("archive/data.pkl")
        assert archive.read("archive/version") == b"3\n" and archive.read("archive/byteorder") == sys.byteorder.encode()
    assert {name.split("/")[0] for name in names} == {"archive"}
    for opcode, argument, _ in pickletools.genops(text):
        assert opcode.name in OPCODES
        if opcode.name == "GLOBAL" and argument not in GLOBALS:
            module, name = argument.split()
            assert module == "torch" and (name.endswith("Storage") or hasattr(dg, name)), argument
        if opcode.name == "PROTO":
            assert argument == 2


def test_storages_begin_at_multiples_of_64_bytes(monkeypatch):
    value = [dg.ones(count) for count in range(1, 40)]
    for large in (torch_file_writer._LARGE, 20):  # the header for large files is longer
        monkeypatch.setattr(torch_file_writer, "_LARGE", large)
        raw = written(value)
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            for info in archive.infolist():
                names, extras = (int.from_bytes(raw[info.header_offset + at :][:2], "little") for at in (26, 28))
                assert (info.header_offset + 30 + names + extras) % 64 == 0
        assert [x.tolist() for x in dg.load(io.BytesIO(raw))] == [x.tolist() for x in value]


def test_the_same_value_gives_the_same_bytes(tmp_path):
    value = {name: entry for name, entry in checkpoint().items() if name != "containers"}
    assert written(value) == written(value)
    dg.save(value, tmp_path / "a.pt", format="pt")
    with zipfile.ZipFile(tmp_path / "a.pt") as element, zipfile.ZipFile(io.BytesIO(written(value))) as other:
        assert (
            element.namelist() == other.namelist()
        )  # a stream cannot go back for checksums: they stand behind the entries
        assert all(element.read(name) == other.read(name) for name in element.namelist())


def test_memory_of_the_file(tmp_path):
    dg.save({"a": dg.arange(1000.0)}, tmp_path / "a.pt", format="pt")
    mapped = dg.load(tmp_path / "a.pt", mmap=True)
    mapped["a"] += 1
    assert mapped["a"][:2].tolist() == [1, 2] and dg.load(tmp_path / "a.pt")["a"][:2].tolist() == [0, 1]


DEEP = []
for _ in range(200):
    DEEP = [DEEP]
ENDLESS = []
ENDLESS.append(ENDLESS)
Pair = collections.namedtuple("Pair", "a b")


class Own(dg.Tensor):
    pass


def with_metadata(metadata):
    state = collections.OrderedDict()
    state._metadata = metadata
    return state


REFUSED = {
    "metadata": ({"a": with_metadata({"b": len})}, r"save: a._metadata.b is a builtins.builtin_function"),
    "a layer": (
        {"a": dg.nn.Linear(1, 1)},
        r"save: a is a dynograd\.nn\.\S*Linear, which .* refuses. Save its state_dict\(\)",
    ),
    "an array": ({"a": [numpy.ones(2)]}, r"save: a.0 is a numpy.ndarray.*from_numpy\(array\)"),
    "a NumPy number": ({"a": numpy.float64(1)}, r"save: a is a numpy.float64.*x.item\(\)"),
    "a path": ({"a": Path("x")}, r"save: a is a pathlib.\S*Path.*Convert it to numbers.*leave format='pt' out"),
    "a named tuple": (Pair(1, 2), r"save: the object is a \S*Pair"),
    "a frozenset": (frozenset([1]), r"save: the object is a builtins.frozenset"),
    "a defaultdict": (collections.defaultdict(list), r"save: the object is a collections.defaultdict"),
    "a function": ({"a": {"b": len}}, r"save: a.b is a builtins.builtin_function"),
    "a key": ({Path("x"): 1}, r"is a pathlib"),
    "a tensor of meta": ({"a": dg.ones(2, device="meta")}, r"save: a is on the device meta.*to_empty"),
    "an own tensor": ({"a": dg.ones(2).as_subclass(Own)}, r"save: a is a Own.*as_subclass\(dynograd.Tensor\)"),
    "a large number": ({"a": 1 << 3000}, r"save: a is an integer of 3001 bits; torch.load reads 2039"),
    "a deep list": (DEEP, r"lies more than 100 lists and dicts deep"),
    "a list in itself": (ENDLESS, r"save: 0 is a list that lies in itself"),
    "a dtype without tensors": (dg.complex32, r"save: the object is a dynograd.base.dtypes"),
    "rows with a gradient": (dg.ragged_tensor([dg.ones(1)], requires_grad=True), r"requires grad.*x.detach\(\)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_would_refuse_is_refused_here(tmp_path, name):
    value, message = REFUSED[name]
    (tmp_path / "a.pt").write_bytes(b"before")
    with pytest.raises(TypeError, match=message):
        dg.save(value, tmp_path / "a.pt", format="pt")
    assert os.listdir(tmp_path) == ["a.pt"] and (tmp_path / "a.pt").read_bytes() == b"before"


@pytest.mark.parametrize("form", ["pt", "npz"])
def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch, form):
    path = tmp_path / "a"
    dg.save({"a": dg.ones(3)}, path, format=form)
    place = 0
    while True:
        faulty = FaultyOs(place, errno.ENOSPC, ("write",))
        monkeypatch.setattr(files, "os", faulty)
        if place > 200:
            break
        try:
            dg.save({"a": dg.zeros(100), "b": dg.zeros(3)}, path, format=form)
        except CheckpointError as error:
            assert "No space left on device; the file that was there is untouched" in str(error)
            assert os.listdir(tmp_path) == ["a"] and dg.load(path)["a"].tolist() == [1, 1, 1]
            place += 1
            continue
        break
    assert 5 < place < 200 and dg.load(path)["a"].tolist() == [0] * 100


KILLED = """
import sys
import dynograd as dg
from dynograd.base import files
from tests.support.system_faults import FaultyOs
dg.save({"a": dg.ones(3)}, sys.argv[1], format="pt")
files.os = FaultyOs(4, "kill", ("write",))
dg.save({"a": dg.zeros(3)}, sys.argv[1], format="pt")
"""


@pytest.mark.skipif(os.name != "posix", reason="kills itself by a signal")
def test_a_killed_process_leaves_the_old_file(tmp_path):
    ended = subprocess.run([sys.executable, "-c", KILLED, tmp_path / "a.pt"], check=False)
    assert ended.returncode == -signal.SIGKILL and len(os.listdir(tmp_path)) == 2
    assert dg.load(tmp_path / "a.pt")["a"].tolist() == [1, 1, 1]
    dg.save({"a": dg.zeros(3)}, tmp_path / "a.pt", format="pt")
    assert os.listdir(tmp_path) == ["a.pt"]


def test_formats():
    for form in (None, "safetensors"):
        file = io.BytesIO()
        dg.save({"a": dg.ones(1)}, file, format=form)
        assert file.getvalue()[8:10] == b'{"'
    with pytest.raises(ValueError, match=r"format is None, 'safetensors', 'pt' or 'npz', got 'onnx'"):
        dg.save({}, io.BytesIO(), format="onnx")
    with pytest.raises(ValueError, match=r"max_shard_size is for safetensors files, got format='pt'"):
        dg.save({}, "x", format="pt", max_shard_size="1GB")
