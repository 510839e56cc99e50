"""`.gguf` files: numbers in blocks against slow references, against the package `gguf`, and what is refused."""

from __future__ import annotations

import importlib.util
import io
import struct
import sys

import numpy
import pytest

import dynograd as dg
from dynograd.errors import CheckpointError
from dynograd.saving import gguf_files


def has_package():
    return importlib.util.find_spec("gguf") is not None


def text(string):
    raw = string if isinstance(string, bytes) else string.encode()
    return struct.pack("<Q", len(raw)) + raw


def entry(key, kind, raw):
    return text(key) + struct.pack("<I", kind) + raw


def place(name, sizes, kind, offset):
    """`sizes` as in the file: the last dimension first."""
    return text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, offset)


def gguf_file(entries=(), places=(), data=b"", version=3, counts=None, alignment=32):
    header = b"GGUF" + struct.pack("<IQQ", version, *(counts or (len(places), len(entries))))
    header += b"".join(entries) + b"".join(places)
    return header + bytes(-len(header) % alignment) + data


def load(raw):
    return dg.saving.load_gguf(io.BytesIO(raw))


PLAIN = [
    (0, "<f4", "float32"),
    (1, "<f2", "float16"),
    (24, "i1", "int8"),
    (25, "<i2", "int16"),
    (26, "<i4", "int32"),
    (27, "<i8", "int64"),
]
PLAIN += [(28, "<f8", "float64")]


@pytest.mark.parametrize("kind, form, dtype", PLAIN)
def test_plain_types(tmp_path, kind, form, dtype):
    values = numpy.arange(6, dtype=form).reshape(2, 3)
    raw = gguf_file((), [place("a.weight", (3, 2), kind, 32)], bytes(32) + values.tobytes())
    (tmp_path / "a.gguf").write_bytes(raw)
    for back in (
        load(raw).tensors,
        dg.saving.load_gguf(tmp_path / "a.gguf", "cpu").tensors,
        dg.load(tmp_path / "a.gguf"),
    ):
        assert list(back) == ["a.weight"] and back["a.weight"].dtype is getattr(dg, dtype)
        assert back["a.weight"].tolist() == values.tolist()


def test_bfloat16_and_numbers_without_dimensions():
    raw = gguf_file(
        (),
        [place("b", (2,), 30, 0), place("s", (), 0, 32), place("e", (0, 3), 0, 36)],
        b"\x80\x3f\x00\x40" + bytes(28) + struct.pack("<f", 7),
    )
    back = load(raw).tensors
    assert back["b"].dtype is dg.bfloat16 and back["b"].tolist() == [1, 2]
    assert back["s"].tolist() == 7 and back["e"].shape == (3, 0)


def test_metadata():
    numbers = [
        (0, "<B", 255),
        (1, "<b", -1),
        (2, "<H", 65535),
        (3, "<h", -2),
        (4, "<I", 7),
        (5, "<i", -7),
        (6, "<f", 0.5),
        (7, "<B", 1),
    ]
    numbers += [(10, "<Q", 2**63), (11, "<q", -(2**63)), (12, "<d", 0.1)]
    entries = [entry(f"n.{kind}", kind, struct.pack(form, value)) for kind, form, value in numbers]
    entries += [entry("text", 8, text("ü")), entry("list", 9, struct.pack("<IQ", 8, 2) + text("a") + text(""))]
    entries += [
        entry("lists", 9, struct.pack("<IQ", 9, 2) + struct.pack("<IQ3h", 3, 3, 1, 2, -3) + struct.pack("<IQ", 7, 0))
    ]
    entries += [entry("general.alignment", 4, struct.pack("<I", 64))]
    back = load(gguf_file(entries, [place("a", (1,), 0, 0)], struct.pack("<f", 3), alignment=64))
    expected = {f"n.{kind}": value for kind, _, value in numbers} | {"n.7": True, "text": "ü", "list": ["a", ""]}
    assert (
        back.metadata == {**expected, "lists": [[1, 2, -3], []], "general.alignment": 64}
        and back.metadata["n.7"] is True
    )
    assert back.tensors["a"].tolist() == [3]


WEIGHT = place("a", (2,), 0, 0)
REFUSED = {
    "nothing": (b"", "truncated"),
    "other letters": (b"GGML" + bytes(100), "is no GGUF file"),
    "an old version": (gguf_file(version=1), "has version 1 of GGUF; 2 and 3 are read"),
    "a big-endian file": (gguf_file(version=3 << 24), r"version 50331648 \(of a big-endian machine\)"),
    "a cut file": (gguf_file((), [WEIGHT], bytes(7)), r"'a' of 8 bytes breaks off"),
    "many entries": (gguf_file(counts=(0, 1 << 60)), r"truncated or damaged: 4 bytes are wanted at byte 32, of 32"),
    "many tensors": (gguf_file(counts=(1 << 60, 0)), "truncated or damaged"),
    "a long text": (
        gguf_file([struct.pack("<Q", 1 << 62)], counts=(0, 1)),
        r"4611686018427387904 bytes are wanted at byte 32",
    ),
    "a long list": (gguf_file([entry("a", 9, struct.pack("<IQ", 0, 1 << 60))]), "bytes are wanted"),
    "a long list of lists": (gguf_file([entry("a", 9, struct.pack("<IQ", 9, 1 << 60))]), "truncated or damaged"),
    "lists in lists": (gguf_file([entry("a", 9, struct.pack("<IQ", 9, 1) * 9)]), r"lie more than 4 deep"),
    "a type of value": (gguf_file([entry("a", 13, bytes(8))]), "a value of type 13"),
    "a key twice": (gguf_file([entry("a", 0, b"1")] * 2), "'a' is twice in its metadata"),
    "bytes that are no text": (gguf_file([entry(b"\xff", 0, b"1")]), r"truncated or damaged at byte \d+ .*utf-8"),
    "an alignment of 0": (gguf_file([entry("general.alignment", 4, bytes(4))]), "its alignment is 0"),
    "an alignment of text": (gguf_file([entry("general.alignment", 8, text("x"))]), "its alignment is x"),
    "an alignment of 3": (gguf_file([entry("general.alignment", 4, struct.pack("<I", 3))]), "expected a power of 2"),
    "many dimensions": (gguf_file((), [place("a", (1,) * 9, 0, 0)], bytes(4)), "has 9 dimensions, at most 8"),
    "a huge tensor": (gguf_file((), [place("a", (1 << 63, 1 << 63), 0, 0)]), "is damaged"),
    "a huge tensor without elements": (gguf_file((), [place("a", (0, 1 << 62), 0, 0)]), "is damaged"),
    "a large tensor": (gguf_file((), [place("a", (1 << 40,), 0, 0)]), r"'a' of 4398046511104 bytes breaks off"),
    "a far tensor": (gguf_file((), [place("a", (2,), 0, 1 << 63)], bytes(8)), "breaks off"),
    "a name twice": (gguf_file((), [WEIGHT] * 2, bytes(8)), "'a' is there twice"),
    "tensors in one another": (
        gguf_file((), [WEIGHT, place("b", (2,), 0, 4)], bytes(12)),
        "'b' lies in another tensor",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    raw, message = REFUSED[name]
    with pytest.raises(CheckpointError, match=rf"^load: the given file .*{message}"):
        load(raw)


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(
        ImportError, match=r"tensor 'a' is quantised, and the package gguf.*pip install 'dynograd\[gguf\]'"
    ):
        load(gguf_file((), [place("a", (32,), 2, 0)], bytes(18)))


# --- quantised types: slow references, as ggml's own code in C reads -----------------------------------------------------------


def half(raw):
    return float(numpy.frombuffer(raw, "<f2")[0])


def q4_0(raw):
    scale = half(raw[:2])
    return [scale * ((byte & 15) - 8) for byte in raw[2:18]] + [scale * ((byte >> 4) - 8) for byte in raw[2:18]]


def q4_1(raw):
    scale, least = half(raw[:2]), half(raw[2:4])
    return [scale * (byte & 15) + least for byte in raw[4:20]] + [scale * (byte >> 4) + least for byte in raw[4:20]]


def fifth_bits(raw, at):
    bits = int.from_bytes(raw[at : at + 4], "little")
    low = [raw[at + 4 + j] & 15 | (bits >> j & 1) << 4 for j in range(16)]
    return low + [raw[at + 4 + j] >> 4 | (bits >> j + 16 & 1) << 4 for j in range(16)]


def q5_0(raw):
    return [half(raw[:2]) * (value - 16) for value in fifth_bits(raw, 2)]


def q5_1(raw):
    return [half(raw[:2]) * value + half(raw[2:4]) for value in fifth_bits(raw, 4)]


def q8_0(raw):
    return [half(raw[:2]) * value for value in numpy.frombuffer(raw[2:34], "i1").tolist()]


def q2_k(raw):
    scales, quants, scale, least = raw[:16], raw[16:80], half(raw[80:82]), half(raw[82:84])
    values = []
    for part in range(2):
        for shift in (0, 2, 4, 6):
            for group in range(2):
                sub = scales[len(values) // 16]
                for j in range(16):
                    quant = quants[32 * part + 16 * group + j] >> shift & 3
                    values.append(scale * (sub & 15) * quant - least * (sub >> 4))
    return values


def six_bits(raw, j):
    """(scale, least) of eight, packed in 12 bytes."""
    if j < 4:
        return raw[j] & 63, raw[j + 4] & 63
    return raw[j + 4] & 15 | raw[j - 4] >> 6 << 4, raw[j + 4] >> 4 | raw[j] >> 6 << 4


def q4_k(raw):
    scale, least, quants = half(raw[:2]), half(raw[2:4]), raw[16:144]
    values = []
    for j in range(8):
        sub, low = six_bits(raw[4:16], j)
        for byte in quants[32 * (j // 2) : 32 * (j // 2) + 32]:
            values.append(scale * sub * (byte >> 4 if j % 2 else byte & 15) - least * low)
    return values


def q5_k(raw):
    scale, least, high, quants = half(raw[:2]), half(raw[2:4]), raw[16:48], raw[48:176]
    values = []
    for j in range(8):
        sub, low = six_bits(raw[4:16], j)
        for place, byte in enumerate(quants[32 * (j // 2) : 32 * (j // 2) + 32]):
            quant = (byte >> 4 if j % 2 else byte & 15) + (high[place] >> j & 1) * 16
            values.append(scale * sub * quant - least * low)
    return values


def q6_k(raw):
    low, high, scales, scale = (
        raw[:128],
        raw[128:192],
        numpy.frombuffer(raw[192:208], "i1").tolist(),
        half(raw[208:210]),
    )
    values = [0.0] * 256
    for part in range(2):
        for j in range(32):
            first, second, top = low[64 * part + j], low[64 * part + 32 + j], high[32 * part + j]
            for group, nibble in enumerate((first & 15, second & 15, first >> 4, second >> 4)):
                quant = (nibble | (top >> 2 * group & 3) << 4) - 32
                values[128 * part + 32 * group + j] = scale * scales[8 * part + j // 16 + 2 * group] * quant
    return values


NONLINEAR = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)


def iq4_nl(raw):
    scale = half(raw[:2])
    return [scale * NONLINEAR[byte & 15] for byte in raw[2:18]] + [scale * NONLINEAR[byte >> 4] for byte in raw[2:18]]


# type in the file, its bytes and elements in a block, where its scales (halfs) are, and the reference
BLOCKS = {
    "Q4_0": (2, 18, 32, (0,), q4_0),
    "Q4_1": (3, 20, 32, (0, 2), q4_1),
    "Q5_0": (6, 22, 32, (0,), q5_0),
    "Q5_1": (7, 24, 32, (0, 2), q5_1),
    "Q8_0": (8, 34, 32, (0,), q8_0),
    "Q2_K": (10, 84, 256, (80, 82), q2_k),
    "Q4_K": (12, 144, 256, (0, 2), q4_k),
    "Q5_K": (13, 176, 256, (0, 2), q5_k),
    "Q6_K": (14, 210, 256, (208,), q6_k),
    "IQ4_NL": (20, 18, 32, (0,), iq4_nl),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks(name):
    pytest.importorskip("gguf", reason="quantised types are read by the package gguf")
    kind, of_block, per_block, scales, reference = BLOCKS[name]
    raw = numpy.random.default_rng(kind).integers(0, 256, (3, 2, of_block), numpy.uint8)
    for at in scales:  # finite, and not too small to see
        raw[..., at : at + 2] = numpy.frombuffer(numpy.float16([0.5, -0.25, 1.5]).tobytes(), "u1").reshape(3, 1, 2)
    x = load(gguf_file((), [place("a", (2 * per_block, 3), kind, 0)], raw.tobytes())).tensors["a"]
    expected = [[value for block in row for value in reference(block.tobytes())] for row in raw]
    assert x.dtype is dg.float32 and x.shape == (3, 2 * per_block)
    numpy.testing.assert_allclose(x.numpy(), expected, rtol=1e-6, atol=1e-6)


def test_files_of_the_package(tmp_path):
    """All types that it can turn into numbers, written by its own writer."""
    gguf = pytest.importorskip("gguf", reason="quantised types are read by the package gguf")
    writer, generator, expected = gguf.GGUFWriter(tmp_path / "a.gguf", "llama"), numpy.random.default_rng(0), {}
    writer.add_array("tokenizer.ggml.tokens", ["a", "ü", ""])
    writer.add_array("sizes", [1, 2, 3])
    writer.add_bool("flag", True)
    for kind, (_, of_block) in gguf.GGML_QUANT_SIZES.items():
        raw = generator.integers(0, 256, (3, 2 * of_block), numpy.uint8)
        try:
            with numpy.errstate(all="ignore"):
                expected[kind.name] = gguf.quants.dequantize(raw, kind)
        except NotImplementedError:
            continue
        if kind.value not in gguf_files._PLAIN:
            writer.add_tensor(kind.name, raw, raw_dtype=kind)
    values = numpy.random.default_rng(0).normal(size=(4, 64)).astype(numpy.float32)
    for name in ("Q4_0", "Q5_1", "Q8_0", "BF16"):
        kind = gguf.GGMLQuantizationType[name]
        writer.add_tensor(f"values.{name}", gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    back = dg.saving.load_gguf(tmp_path / "a.gguf")
    entries = {"tokenizer.ggml.tokens": ["a", "ü", ""], "sizes": [1, 2, 3], "flag": True}
    assert back.metadata == {"general.architecture": "llama", **entries}
    assert len(back.tensors) >= 20
    for name, x in back.tensors.items():
        if name.startswith("values."):
            assert abs(x.float().numpy() - values).max() < 0.5
        else:
            assert numpy.array_equal(x.numpy(), expected[name], equal_nan=True), name


@pytest.mark.parametrize(
    "kind, message", [(99, "type 99, which the package gguf does not know"), (9, "Q8_1.* cannot turn into numbers")]
)
def test_types_that_the_package_does_not_have(tmp_path, kind, message):
    pytest.importorskip("gguf", reason="quantised types are read by the package gguf")
    (tmp_path / "a.gguf").write_bytes(gguf_file((), [place("a", (32,), kind, 0)], bytes(40)))
    with pytest.raises(CheckpointError, match=message):
        dg.load(tmp_path / "a.gguf")
    with pytest.raises(CheckpointError, match=r"'a' of shape \(33,\) does not consist of blocks of 32"):
        load(gguf_file((), [place("a", (33,), 2, 0)], bytes(36)))
