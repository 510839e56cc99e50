"""Checkpoints that were changed on the way: every change is noticed, nothing runs, and only CheckpointError comes out."""

from __future__ import annotations

import contextlib
import io
import json
import random
import signal
import sys
from collections import OrderedDict

import numpy
import pytest

import dynograd as dg
from dynograd.base import checksums
from dynograd.errors import CheckpointError
from dynograd.saving import checkpoint_files

FORBIDDEN = (
    "exec",
    "compile",
    "import",
    "os.system",
    "os.exec",
    "subprocess.",
    "socket.",
    "pickle.",
    "ctypes.dlopen",
    "marshal.",
)
audited: list[str] | None = None


def audit(event, args):
    if audited is not None and event.startswith(FORBIDDEN):
        audited.append(f"{event} {args!r:.100}")


sys.addaudithook(audit)


def saved(value):
    buffer = io.BytesIO()
    dg.save(value, buffer)
    return buffer.getvalue()


VALUE = {
    "model": OrderedDict([("weight", dg.arange(12.0).reshape(3, 4)), ("bias", dg.ones(3, dtype=dg.bfloat16))]),
    "optimizer": {
        "state": {0: {"step": dg.tensor(3.0), "exp_avg": dg.zeros(3, 4)}},
        "param_groups": [{"lr": 1e-3, "params": [0]}],
    },
    "random": (b"\x00\x01", 2**63, [1, 2, None, True], {"größe"}),
    "empty": dg.zeros(0, 3),
    "mask": dg.tensor([True, False]),
    "z": dg.tensor([1 + 2j]),
    "numpy": numpy.arange(4, dtype=numpy.uint16),
}


@pytest.fixture(scope="module", autouse=True)
def everything_is_imported(tmp_path_factory):
    """What a first load imports is no code out of a file."""
    path = tmp_path_factory.mktemp("warm") / "x"
    for raw in (saved(VALUE), b"PK\x03\x04", b""):
        path.write_bytes(raw)
        with contextlib.suppress(CheckpointError):
            dg.load(path)


def outline(value):
    """The value as something that compares."""
    if isinstance(value, dg.Tensor):
        return "tensor", str(value.dtype), tuple(value.shape), value.detach().numpy().tobytes()
    if isinstance(value, numpy.ndarray):
        return "array", str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, dict):
        return [(outline(key), outline(element)) for key, element in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [outline(element) for element in value]
    return repr(value)


def outcome(path, raw):
    """What `load` makes of the bytes: an outline, or the error's name."""
    global audited
    path.write_bytes(raw)
    audited = []
    try:
        result = dg.load(path)
    except CheckpointError:
        result = "CheckpointError"
    finally:
        events, audited = audited, None
    assert not events, events
    return result if isinstance(result, str) else outline(result)


def test_every_flipped_bit_is_noticed(tmp_path):
    value = {"weight": dg.arange(4.0), "n": [1, "two"]}
    raw = saved(value)
    assert outcome(tmp_path / "x", raw) == outline(value)
    for bit in range(8 * len(raw)):
        changed = bytearray(raw)
        changed[bit // 8] ^= 1 << bit % 8
        assert outcome(tmp_path / "x", changed) == "CheckpointError", f"bit {bit % 8} of byte {bit // 8}"


def test_every_truncation_is_noticed(tmp_path):
    raw = saved({"weight": dg.arange(4.0)})
    for length in range(len(raw)):
        assert outcome(tmp_path / "x", raw[:length]) == "CheckpointError"
    assert outcome(tmp_path / "x", raw + b"\0") == "CheckpointError"


def mutant(raw, chance):
    """`raw` with one to four changes of the kinds that fuzzers make."""
    changed = bytearray(raw)
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        if not changed:
            return b""
        # Half of the changes go into the header, which is the part with a meaning.
        most = len(changed) if chance.random() < 0.5 else min(len(changed), 8 + int.from_bytes(raw[:8], "little"))
        begin = chance.randrange(most)
        end = min(len(changed), begin + chance.choice([1, 2, 4, 8, 64, 500]))
        other = chance.randrange(len(changed))
        kind = chance.randrange(9)
        if kind == 0:
            changed[begin] ^= 1 << chance.randrange(8)
        elif kind == 1:
            changed[begin] = chance.choice(b'\x00\xff\x7f\x80"{}[]:,0123456789-\\ ')
        elif kind == 2:
            changed[begin:end] = chance.randbytes(end - begin)
        elif kind == 3:
            changed[begin:end] = bytes(end - begin)
        elif kind == 4:
            del changed[begin:end]
        elif kind == 5:
            changed[other:other] = changed[begin:end]
        elif kind == 6:
            del changed[begin:]
        elif kind == 7:
            changed[begin:end] = changed[other : other + end - begin]
        else:
            digits = [place for place in range(8, most) if 48 <= changed[place] < 58]
            if digits:
                changed[chance.choice(digits)] = chance.choice(b"0123456789")
    return bytes(changed)


def run_mutants(folder, count, seed):
    """(noticed, unchanged) of `count` mutants; fails on everything that must not be."""
    raw, expected, chance = saved(VALUE), outline(VALUE), random.Random(seed)
    path = folder / "x"
    assert outcome(path, raw) == expected
    noticed = unchanged = 0
    for number in range(count):
        changed = mutant(raw, chance)
        signal.setitimer(signal.ITIMER_REAL, 20)  # a load that hangs ends the test
        result = outcome(path, changed)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if result == "CheckpointError":
            noticed += 1
        else:
            assert result == expected, f"mutant {number} is another object"
            assert changed == raw, f"mutant {number} was not noticed"
            unchanged += 1
    return noticed, unchanged


def test_mutants_are_noticed(tmp_path):
    noticed, unchanged = run_mutants(tmp_path, 400, seed=0)
    assert noticed > 380 and unchanged < 20


@pytest.mark.slow
def test_ten_thousand_mutants_are_noticed(tmp_path):
    noticed, unchanged = run_mutants(tmp_path, 10_000, seed=1)
    print(f"10,000 mutants: {noticed} CheckpointErrors, {unchanged} with the bytes of the original, 0 other")
    assert noticed + unchanged == 10_000 and unchanged < 400


def test_mutants_of_other_programs_files_only_give_checkpoint_errors(tmp_path):
    from safetensors.numpy import save

    raw, chance = save({"w": numpy.ones((3, 2), numpy.float32), "n": numpy.arange(3)}, {"who": "me"}), random.Random(2)
    for _ in range(300):
        outcome(tmp_path / "x", mutant(raw, chance))


def forged(tree, entries=None, format=checkpoint_files.FORMAT, crc32=None):
    """A file with right checksums around a tree that `save` would not write."""
    text = json.dumps({"format": format, "crc32": {} if crc32 is None else crc32, "tree": "TREE"})
    text = text.replace('"TREE"', tree if isinstance(tree, str) else json.dumps(tree))
    header = json.dumps(
        {"__metadata__": {"dynograd.crc32": "0" * 8, "dynograd": text}, **(entries or {})}, separators=(",", ":")
    )
    raw = checkpoint_files._with_own_checksum(checkpoint_files._padded(header.encode()))
    return len(raw).to_bytes(8, "little") + raw


def nested(depth):
    tree = 1
    for _ in range(depth):
        tree = [tree]
    return tree


@pytest.mark.parametrize(
    "tree",
    [
        {"kind": "system"},
        {"kind": "__init__"},
        {"kind": "read"},
        {"kind": ["tensor"]},
        {},
        {"kind": "tensor", "name": "nothing"},
        {"kind": "tensor"},
        {"kind": "dict", "items": [1, 2]},
        {"kind": "dict", "items": [[[1], 2]]},
        {"kind": "set", "items": [[1]]},
        {"kind": "bytes", "value": "xyz"},
        {"kind": "dtype", "value": "float128"},
        {"kind": "device", "value": "os"},
        {"kind": "size", "items": ["a"]},
        {"kind": "complex", "value": [1, 2, 3]},
        {"kind": "float", "value": "one"},
        nested(350),
    ],
    ids=lambda tree: json.dumps(tree)[:40],
)
def test_trees_that_nobody_wrote(tmp_path, tree):
    (tmp_path / "x").write_bytes(forged(tree))
    with pytest.raises(CheckpointError, match=r"is damaged: what it says about its structure.*older checkpoint"):
        dg.load(tmp_path / "x")


def test_a_forged_file_without_faults_is_read(tmp_path):
    (tmp_path / "x").write_bytes(forged({"kind": "tuple", "items": [nested(40)]}))
    assert dg.load(tmp_path / "x") == (nested(40),)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (forged(1, format=9), r"format 9, this dynograd reads format 2\. Update dynograd"),
        (forged(1, format=1), r"format 1, whose header had no checksum"),
        (forged(1, format="x"), "what its header says of itself is incomplete"),
        (forged(1, crc32={"w": "00000000"}), r"'w' is not both a tensor and in the list"),
        (forged("[" * 5000 + "]" * 5000), "its header cannot be read|what it says about its structure cannot be read"),
        ((1 << 40).to_bytes(8, "little") + b"{}", "not a checkpoint|truncated or damaged"),
    ],
)
def test_headers_that_nobody_wrote(tmp_path, raw, words):
    (tmp_path / "x").write_bytes(raw)
    with pytest.raises(CheckpointError, match=words):
        dg.load(tmp_path / "x")


def other_file(header):
    raw = header.encode()
    return len(raw).to_bytes(8, "little") + raw + b"\0" * 4


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (
            other_file(
                '{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}'
            ),
            "twice",
        ),
        (
            other_file('{"a":{"dtype":"F4","shape":[8],"data_offsets":[0,4]}}'),
            r"dtype F4, which dynograd does not have",
        ),
        (other_file('{"a":{"dtype":"U8","shape":[5],"data_offsets":[0,5]}}'), "truncated or damaged"),
        (other_file('{"a":{"dtype":"U8","shape":[4' + ",1" * 80 + '],"data_offsets":[0,4]}}'), "has shape"),
    ],
)
def test_other_programs_files_that_are_wrong(tmp_path, raw, words):
    (tmp_path / "x").write_bytes(raw)
    with pytest.raises(CheckpointError, match=words):
        dg.load(tmp_path / "x")


def test_the_safetensors_library_reads_what_was_saved(tmp_path):
    from safetensors import safe_open

    dg.save(VALUE, tmp_path / "x")
    with safe_open(tmp_path / "x", framework="np") as file:
        assert sorted(file.keys()) == sorted(
            "model.weight model.bias optimizer.state.0.step optimizer.state.0.exp_avg empty mask z numpy".split()
        )
        assert file.get_tensor("model.weight").tolist() == VALUE["model"]["weight"].tolist()
        assert json.loads(file.metadata()["dynograd"])["format"] == 2


def test_tensors_begin_at_multiples_of_their_elements(tmp_path):
    raw = saved({"a": dg.ones(3, dtype=dg.uint8), "b": dg.ones(1, dtype=dg.float64), "c": dg.ones(1, dtype=dg.float16)})
    length = int.from_bytes(raw[:8], "little")
    places = json.loads(raw[8 : 8 + length])
    assert (8 + length) % 8 == 0
    assert [places[name]["data_offsets"] for name in "bca"] == [[0, 8], [8, 10], [10, 13]]


def test_a_long_tree_is_stored_as_a_tensor(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint_files, "_LONGEST_TREE", 100)
    value = {"words": [f"word {number}" for number in range(100)], "x": dg.ones(2)}
    dg.save(value, tmp_path / "x")
    assert outline(dg.load(tmp_path / "x")) == outline(value)
    raw = bytearray((tmp_path / "x").read_bytes())
    assert raw.count(b"word 99") == 1  # and not in the header, too
    raw[raw.index(b"word 7")] ^= 1
    assert outcome(tmp_path / "x", raw) == "CheckpointError"


def test_a_header_that_readers_would_refuse_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint_files, "_LONGEST_HEADER", 1000)
    with pytest.raises(CheckpointError, match=r"header would have \d+ bytes.*Put long lists of numbers into tensors"):
        dg.save([1] * 1000, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_what_lies_too_deep_or_in_itself_is_refused():
    inside: list = []
    inside.append(inside)
    with pytest.raises(TypeError, match=r"more than 100 lists and dicts deep, or in itself"):
        saved(inside)
    assert outline(dg.load(io.BytesIO(saved(nested(100))))) == outline(nested(100))
    with pytest.raises(TypeError, match=r"n is an integer of 20001 bits, at most 14000"):
        saved({"n": 1 << 20_000})


def test_names_that_others_use(tmp_path):
    value = {
        "__metadata__": dg.ones(1),
        "dynograd.tree": dg.zeros(1),
        "\udc80": dg.ones(2),
        "": dg.ones(3),
        "a.b": dg.ones(4),
        "a": {"b": dg.zeros(4)},
    }
    dg.save(value, tmp_path / "x")
    assert outline(dg.load(tmp_path / "x")) == outline(value)


@pytest.mark.parametrize("size", [0, 1, 5 << 20, (1 << 25) + 3])
def test_checksums_of_shares_are_joined(size):
    import zlib

    data = numpy.random.default_rng(0).integers(0, 255, size, numpy.uint8)
    target = numpy.empty_like(data)

    def read_into(piece, offset):
        memoryview(piece)[:] = data[offset : offset + len(piece)]

    assert checksums.read_all([(target, 0, True), (target[:0], 0, False)], read_into) == [zlib.crc32(data), None]
    assert (target == data).all()
    written = []
    assert checksums.while_writing([data, data[:3]], written.append) == [zlib.crc32(data), zlib.crc32(data[:3])]
    assert [len(element) for element in written] == [size, min(size, 3)]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc/self/maps tells whose memory it is")
def test_memory_of_the_file(tmp_path):
    """With mmap=True tensors lie in the file's pages, as they would in another process; what is written stays in memory."""
    path = tmp_path / "model.safetensors"
    layer = dg.nn.Linear(30, 40)
    right = {**layer.state_dict(), "half": dg.ones(3).half(), "nothing": dg.ones(0, 2), "number": dg.tensor(7)}
    dg.save(right, path)
    raw = path.read_bytes()
    mapped = dg.load(path, mmap=True)
    assert {name: value.tolist() for name, value in mapped.items()} == {
        name: value.tolist() for name, value in right.items()
    }
    with open("/proc/self/maps") as maps:
        spans = [[int(end, 16) for end in line.split()[0].split("-")] for line in maps if str(path) in line]
    for name in ("weight", "bias", "half", "number"):
        assert any(first <= mapped[name].data_ptr() < last for first, last in spans), name
    other = dg.nn.Linear(30, 40)
    other.load_state_dict({name: mapped[name] for name in ("weight", "bias")}, assign=True)
    assert any(first <= other.weight.data_ptr() < last for first, last in spans)
    x = dg.randn(2, 30)
    assert dg.equal(layer(x), other(x))
    mapped["weight"][0, 0] = 50.0
    assert mapped["weight"][0, 0].item() == 50.0 and path.read_bytes() == raw
