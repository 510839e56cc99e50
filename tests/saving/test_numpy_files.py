"""`.npz` files both ways: what NumPy reads and writes, dtypes without a name there, and what is refused."""

from __future__ import annotations

import io
import struct
import warnings
import zipfile

import ml_dtypes
import numpy
import pytest

import dynograd as dg
from dynograd.base import dtypes
from dynograd.errors import CheckpointError
from dynograd.saving import numpy_files


def state():
    base = {
        f"layers.0.{kind.name}": dg.tensor([[0, 1, 2], [1, 0, 3]]).to(kind) for kind in (*dtypes.ALL, *dtypes.FLOAT8)
    }
    return {
        **base,
        "empty": dg.zeros(0, 3),
        "0-d": dg.tensor(3.5),
        "turned": dg.arange(6).view(2, 3).t(),
        "a/b.npy": dg.ones(2),
    }


def written(value):
    file = io.BytesIO()
    dg.save(value, file, format="npz")
    return file.getvalue()


def load(raw):
    return dg.load(io.BytesIO(raw))


def of_numpy(save=numpy.savez, **arrays):
    file = io.BytesIO()
    save(file, **arrays)
    return file.getvalue()


def test_what_is_written_comes_back(tmp_path):
    dg.save(state(), tmp_path / "a", format="npz")
    for back in (load(written(state())), dg.load(tmp_path / "a"), load(written(load(written(state()))))):
        assert list(back) == list(state())
        for name, x in state().items():
            assert back[name].dtype is x.dtype and back[name].shape == x.shape, name
            assert back[name].contiguous().numpy().tobytes() == x.contiguous().numpy().tobytes(), name
    model = dg.nn.Linear(3, 2)
    dg.save(model.state_dict(), tmp_path / "a", format="npz")
    dg.nn.Linear(3, 2).load_state_dict(dg.load(tmp_path / "a"))


def test_numpy_reads_it(tmp_path):
    dg.save(state(), tmp_path / "a.npz", format="npz")
    with numpy.load(tmp_path / "a.npz", allow_pickle=False) as arrays:
        assert arrays.files == list(state())
        for name, x in state().items():
            array = arrays[name]
            if x.dtype is dg.bfloat16:
                assert array.dtype == "V2"
                array = array.view(ml_dtypes.bfloat16)
            elif x.dtype in dtypes.FLOAT8:
                array = array[x.dtype.name].view(getattr(ml_dtypes, x.dtype.name))
            assert array.shape == tuple(x.shape) and array.tobytes() == x.contiguous().numpy().tobytes(), name


@pytest.mark.parametrize("save", [numpy.savez, numpy.savez_compressed])
def test_numpys_own_files(save):
    arrays = {
        "big": numpy.arange(5, dtype=">f4"),
        "columns": numpy.asfortranarray(numpy.arange(6).reshape(2, 3)),
        "half": numpy.ones(3, ml_dtypes.bfloat16),
        "words.of.a.path": numpy.array([True, False]),
        "none": numpy.zeros((2, 0)),
    }
    back = load(of_numpy(save, **arrays))
    assert back["big"].dtype is dg.float32 and back["half"].dtype is dg.bfloat16
    assert {name: x.tolist() for name, x in back.items()} == {name: array.tolist() for name, array in arrays.items()}
    assert load(of_numpy(save)) == {} == load(written({}))


def zipped(*entries, method=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that are there twice
        for name, content in entries:
            archive.writestr(name, content)
    return file.getvalue()


def array_file(text, content=b"", version=(1, 0)):
    header = text.encode() + b"\n"
    return (
        b"\x93NUMPY" + bytes(version) + struct.pack("<H" if version == (1, 0) else "<I", len(header)) + header + content
    )


def described(descr, shape, content=b""):
    return array_file(f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}}}", content)


ONE = described("<f4", (1,), bytes(4))
REFUSED = {
    "objects": (
        of_numpy(a=numpy.array([{}], object)),
        r"has Python objects in 'a', which are pickled and could run code",
    ),
    "objects in a record": (of_numpy(a=numpy.zeros(1, [("x", object)])), "has Python objects in 'a'"),
    "texts": (of_numpy(a=numpy.array(["text"])), r"has 'a' of NumPy's dtype <U4, of which there are no tensors"),
    "times": (of_numpy(a=numpy.zeros(1, "M8[s]")), r"of NumPy's dtype datetime64"),
    "records": (of_numpy(a=numpy.zeros(1, [("x", "f4"), ("y", "f4")])), r"of NumPy's dtype \[\('x'"),
    "a float8 without a name": (zipped(("a.npy", described("|V1", (1,), bytes(1)))), r"of NumPy's dtype \|V1"),
    "quadruple precision": (of_numpy(a=numpy.zeros(1, numpy.longdouble)), "of which there are no tensors"),
    "another file": (zipped(("a.npy", ONE), ("b.txt", b"")), r"has 'b.txt' in it, which is no array"),
    "a name twice": (zipped(("a.npy", ONE), ("a.npy", ONE)), "a name is there twice"),
    "another compression": (
        zipped(("a.npy", ONE), method=zipfile.ZIP_LZMA),
        "compressed in a way that NumPy does not use",
    ),
    "too long": (zipped(("a.npy", ONE + b"x")), r"'a' of shape \(1,\) has 5 bytes"),
    "too short": (zipped(("a.npy", ONE[:-1])), r"'a' of shape \(1,\) has 3 bytes"),
    "a negative size": (zipped(("a.npy", described("<f4", (-1, -1), bytes(4)))), "is damaged"),
    "a huge shape": (zipped(("a.npy", described("<f4", (1 << 62, 1 << 62)))), "is damaged"),
    "elements of no bytes": (zipped(("a.npy", described("|S0", (1 << 40,)))), "of which there are no tensors"),
    "many dimensions": (zipped(("a.npy", described("<f4", (1,) * 100, bytes(4)))), "is damaged"),
    "code in the header": (zipped(("a.npy", array_file("__import__('os').system('true')"))), "damaged: ValueError"),
    "a deep header": (zipped(("a.npy", array_file("(" * 5000))), "is truncated or damaged"),
    "a long header": (
        zipped(("a.npy", array_file("{'descr': '<f4', 'fortran_order': False, 'shape': ()}" + " " * 20000, bytes(4)))),
        "large",
    ),
    "a newer format": (zipped(("a.npy", array_file("{}", version=(9, 0)))), r"version \(9, 0\) of NumPy's format"),
    "no array": (zipped(("a.npy", b"nothing at all")), "is truncated or damaged"),
    "a cut archive": (zipped(("a.npy", ONE))[:-30], "is truncated or damaged"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    raw, message = REFUSED[name]
    with pytest.raises(CheckpointError, match=rf"(?s)^load: the given file .*{message}"):
        load(raw)


def test_a_damaged_byte_is_noticed():
    raw = bytearray(written({"a": dg.arange(1000)}))
    raw[raw.index(b"\n") + 100] ^= 1
    with pytest.raises(CheckpointError, match="Bad CRC-32"):
        load(bytes(raw))


def test_entries_that_overlap():
    """The archive says that the second entry, too, has the bytes of the first: so do bombs that nothing else limits."""
    raw = bytearray(zipped(("a.npy", described("<f4", (1000,), bytes(4000))), ("b.npy", ONE)))
    second = raw.rindex(b"PK\x01\x02")
    raw[second + 20 : second + 28] = struct.pack("<II", 4100, 4100)
    with pytest.raises(CheckpointError, match="entries overlap"):
        load(bytes(raw))


def test_a_bomb_is_not_unpacked(monkeypatch):
    monkeypatch.setattr(numpy_files, "FREE", 1 << 16)
    raw = of_numpy(numpy.savez_compressed, a=numpy.zeros(1 << 20, numpy.uint8))
    with pytest.raises(
        CheckpointError, match=r"would grow to 1048\d+, more than 100 times as many: it is not read.*numpy.savez"
    ):
        load(raw)
    monkeypatch.setattr(numpy_files, "FREE", 1 << 21)
    assert load(raw)["a"].sum() == 0


def test_what_cannot_be_written():
    for value, message in (
        ([1], "expected a dict of tensors by name, such as a state_dict.., got list"),
        ({"a": 1}, "'a' is a int"),
        ({1: dg.ones(1)}, "'1' is a Tensor"),
        ({"a": dg.ragged_tensor([dg.ones(1)])}, "'a' is a RaggedTensor"),
        ({"a": dg.eye(2).to_sparse()}, "'a' is a SparseTensor"),
    ):
        with pytest.raises(TypeError, match=rf"save: with format='npz'.*{message}"):
            dg.save(value, io.BytesIO(), format="npz")
