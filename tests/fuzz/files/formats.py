"""The formats that dynograd reads: good files of each, how one is read, and the error that a bad one is to give."""

from __future__ import annotations

import functools
import gzip
import io
import json
import random
import struct
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import safetensors.numpy

import dynograd as dg
from dynograd.base import cache_files
from dynograd.data import datasets
from dynograd.errors import CheckpointError, DataFileError, OnnxError, ProgramError
from dynograd.kernels.build import kernel_cache, packs
from tests.fuzz.files import mutations
from tests.fuzz.files.mutations import Change
from tests.saving import test_gguf_files as gguf
from tests.saving import test_torch_files as torch_files

__all__ = ["FORMATS", "Format", "Good", "Refused"]


class Refused(Exception):
    """What is left aside without an error: an entry of a cache, a request that is answered with 400."""


@dataclass(frozen=True)
class Good:
    """A file as it should be, with those that belong to it."""

    target: str
    """The one that is changed."""
    files: dict[str, bytes]


def alone(raw: bytes, name: str = "file") -> Good:
    return Good(name, {name: raw})


@dataclass(frozen=True)
class Format:
    goods: Callable[[], list[Good]]
    read: Callable[[Path], Any]
    refusals: tuple[type[Exception], ...]
    changes: tuple[Change, ...] = ()
    """Of what is inside, checksums put right."""
    checked: bool = False
    """Whether checksums find every change of bytes."""
    runs: bool = False
    """Whether what was read is run, which lets the library write and compile texts of its own."""


# --- checkpoints --------------------------------------------------------------------------------------------------------------


def _state() -> dict[str, Any]:
    values = dg.arange(48.0).view(6, 8)
    return {
        "a.weight": values,
        "view": values[1:3].t(),
        "half": dg.ones(5).bfloat16(),
        "n": dg.arange(7),
        "empty": dg.zeros(0, 2),
    }


def _saved(value: Any, form: str | None = None) -> bytes:
    file = io.BytesIO()
    dg.save(value, file, format=form)
    return file.getvalue()


def _checkpoints() -> list[Good]:
    model = dg.nn.Sequential(dg.nn.Linear(3, 2), dg.nn.BatchNorm1d(2))
    adam = dg.optim.Adam(model.parameters())
    rows = dg.ragged_tensor([[3, 1, 4], [1], [5, 9]])
    plain = {
        "more": [1, "two", (3.0, None)],
        "set": {1, 2},
        "bytes": b"\0\xff",
        "z": 1 + 2j,
        "dtype": dg.float16,
        "nan": float("nan"),
    }
    values = [{**_state(), **plain}, {"model": model.state_dict(), "adam": adam.state_dict()}, {"rows": rows}, model]
    return [alone(_saved(value)) for value in values]


def _others() -> list[Good]:
    arrays = {"a": numpy.arange(6.0).reshape(2, 3), "b": numpy.ones(3, "i1"), "c": numpy.zeros((0, 2), "f2")}
    return [alone(safetensors.numpy.save(arrays, metadata)) for metadata in (None, {"format": "pt", "tied": "a"})]


def _torch_zips() -> list[Good]:
    parts = {**_state(), "more": [1, "two", (3.0, None)], "parameter": dg.nn.Parameter(dg.ones(2))}
    raws = [
        _saved(parts, "pt"),
        torch_files.zipped(torch_files.checkpoint()),
        torch_files.zipped(torch_files.checkpoint(), "big"),
    ]
    return [alone(raw) for raw in raws]


def _records(path: Path) -> Any:
    reader = dg.PyTorchFileReader(path)
    return [(name, reader.get_record(name)) for name in reader.get_all_records()]


def _npz() -> list[Good]:
    packed = io.BytesIO()
    numpy.savez_compressed(packed, **{name: x.numpy() for name, x in _state().items() if name != "half"})
    return [alone(_saved(_state(), "npz")), alone(packed.getvalue())]


def _gguf() -> list[Good]:
    entries = [gguf.entry("text", 8, gguf.text("word")), gguf.entry("number", 4, struct.pack("<I", 7))]
    entries += [gguf.entry("words", 9, struct.pack("<IQ", 8, 2) + gguf.text("a") + gguf.text("bb"))]
    entries += [
        gguf.entry("numbers", 9, struct.pack("<IQ3h", 3, 3, 1, 2, 3)),
        gguf.entry("general.alignment", 4, struct.pack("<I", 32)),
    ]
    places = [gguf.place("f", (4, 2), 0, 0), gguf.place("h", (3,), 1, 32), gguf.place("b", (2,), 30, 64)]
    goods = [gguf.gguf_file(entries, places, bytes(96))]
    if gguf.has_package():
        rows = enumerate(gguf.BLOCKS.items())
        places += [gguf.place(name, (2 * row[2],), row[0], 96 + 512 * number) for number, (name, row) in rows]
        goods.append(gguf.gguf_file(entries, places, bytes(96) + random.Random(0).randbytes(512 * len(gguf.BLOCKS))))
    return [alone(raw) for raw in goods]


def _load(path: Path) -> Any:
    return dg.load(path, "cpu")


def _load_both_ways(path: Path) -> Any:
    """Read and mapped into memory: the same."""
    value = dg.load(path, "cpu")
    try:
        return value, dg.load(path, "cpu", mmap=True)
    except RuntimeError as error:
        if "mmap" not in str(error):
            raise
        return value


# --- folders ------------------------------------------------------------------------------------------------------------------


def _files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def _model_folders() -> list[Good]:
    goods = []
    with tempfile.TemporaryDirectory() as folder:
        tensors = {letter: dg.ones(3) for letter in "abc"}
        dg.saving.save_folder(tensors, folder, {"model_type": "a", "list": [1, 2.5]}, max_shard_size=12)
        files = _files_of(Path(folder))
        goods += [Good(name, files) for name in (*files, "model.safetensors.index.json", "config.json")]
    bins = {"pytorch_model.bin.index.json": json.dumps({"metadata": {}, "weight_map": {"a": "pytorch_model-00001-of-00002.bin", "b": "x.bin"}}).encode()}  # fmt: skip
    bins |= {
        "pytorch_model-00001-of-00002.bin": _saved({"a": dg.ones(2)}, "pt"),
        "x.bin": _saved({"b": dg.ones(1)}, "pt"),
    }
    return [*goods, *[Good(name, bins) for name in bins]]


def _changed_of_a_folder(raw: bytes, chance: random.Random) -> bytes:
    """Whichever kind of file it is."""
    if raw[:1] == b"{":
        return mutations.changed_json(raw, chance)
    return mutations.changed_zip(raw, chance) if raw[:2] == b"PK" else mutations.changed_safetensors(raw, chance)


def _load_folder(path: Path) -> Any:
    folder = dg.saving.load_folder(path.parent, "cpu")
    return [folder.tensors, folder.config]


def _runs() -> list[Good]:
    from dynograd.runs import shards
    from dynograd.runs.parts import check_names
    from dynograd.runs.ranks import Ranks

    goods = []
    with tempfile.TemporaryDirectory() as folder:
        model, optimizer = _model_of_a_run()
        path = Path(folder) / "run.safetensors"
        dg.save_run(path, model=model, optimizer=optimizer, extra={"epoch": 3}, step=7)
        goods.append(Good(path.name, _files_of(path.parent)))
        parts = check_names("save_run", {"model": model, "optimizer": optimizer})
        about = {"version": 1, "step": 7, "score": None}
        shards.write_shards(str(path), Ranks(), parts, dg.runs.random_states.global_state(), {"epoch": 3}, about)
        files = _files_of(path.parent)
        goods += [Good(name, files) for name in files]
    return goods


def _model_of_a_run() -> tuple[Any, Any]:
    model = dg.nn.Linear(3, 2)
    return model, dg.optim.SGD(model.parameters(), 0.1, momentum=0.9)


def _load_run(path: Path) -> Any:
    """A part of a run is read by its commit."""
    model, optimizer = _model_of_a_run()
    commit = path if path.name == "run.safetensors" else path.parents[1] / "run.safetensors"
    try:
        run = dg.load_run(commit, model=model, optimizer=optimizer, map_location="cpu")
    except (RuntimeError, ValueError, TypeError) as error:
        if "state_dict" not in str(error):
            raise
        raise Refused from error  # by a part, in its own words
    return [run.step, run.score, run.extra, model.state_dict(), optimizer.state_dict()]


# --- programs and models of ONNX ----------------------------------------------------------------------------------------------


def _many_kinds(x: Any, places: Any) -> Any:
    """A function with arguments of many kinds."""
    zeros = dg.zeros(x.shape[0], 3)
    zeros[:, 1] = 1
    joined = dg.cat([x, zeros]).view(-1, 3).transpose(0, 1)
    values = dg.nn.functional.embedding(places, dg.ones(9, 3))[:, : x.shape[0] // 2].to(dg.float64)
    return {
        "joined": joined,
        "sorted": (values.sort(1), dg.arange(x.shape[0]).float()),
        "strided": x.as_strided((2, 2), (1, 1)),
        "filled": dg.full((2,), float("inf")),
    }


def _inputs() -> tuple[Any, Any]:
    return dg.ones(4, 3), dg.tensor([1, 2, 3])


def _programs() -> list[Good]:
    dg.manual_seed(0)
    goods = []
    net = dg.nn.Sequential(dg.nn.Linear(3, 2), dg.nn.ReLU(), dg.nn.LayerNorm(2))
    for model, inputs, sizes in ((_many_kinds, _inputs(), ({0: "n"}, None)), (net, (dg.ones(2, 3),), ({0: "n"},))):
        file = io.BytesIO()
        dg.export.save_program(model, inputs, file, dynamic_shapes=sizes)
        goods.append(alone(file.getvalue()))
    return goods


def _load_program(path: Path) -> Any:
    program = dg.export.load_program(path)
    return [program.spec, [(weight.name, weight.kind, weight.tensor) for weight in program.weights]]


def _run_program(path: Path) -> Any:
    """What does not fit these inputs is refused with an error of the library."""
    program = dg.export.load_program(path)
    inputs = _inputs() if len(program.arguments.inputs) == 2 else (dg.ones(2, 3),)
    try:
        result = program(*inputs)
    except (dg.errors.DynogradError, TypeError) as error:
        if isinstance(error, TypeError) and "expected" not in str(error):
            raise
        raise Refused from error
    return list(result.values()) if isinstance(result, dict) else result


@functools.cache
def _onnx_models() -> list[Good]:
    """A third of the models of ONNX's own tests, and one with data beside it."""
    import onnx

    from tests.onnx.fuzz import sources

    goods = [alone(raw, "model.onnx") for raw in sources()[::3]]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        dg.onnx.export(dg.nn.Linear(3, 2), (dg.ones(1, 3),), path)
        onnx.save_model(onnx.load(path), path, save_as_external_data=True, size_threshold=0, location="data.bin")
        files = _files_of(Path(folder))
    return [*goods, *[Good(name, files) for name in files for _ in range(3)]]


def _changed_message(raw: bytes, chance: random.Random) -> bytes:
    from google.protobuf.message import DecodeError

    from tests.onnx.fuzz import damaged

    try:
        return damaged(raw, chance)
    except DecodeError:  # data beside a model
        return mutations.changed_bytes(raw, chance)


def _load_onnx(path: Path) -> Any:
    return repr(type(dg.onnx.load(path.parent / "model.onnx")))


# --- data sets ----------------------------------------------------------------------------------------------------------------

_CONLLU = "# text = she sleeps\n1\tshe\tshe\tPRON\t_\t_\t2\tnsubj\t_\t_\n2\tsleeps\tsleep\tVERB\t_\t_\t0\troot\t_\t_\n\n1-2\tAda\t_\t_\t_\t_\t_\t_\t_\t_\n1\tA\ta\tX\t_\t_\t0\troot\t_\t_\n"  # fmt: skip
_TEXTS = {
    "csv": 'label,words\n1,"a fine, ""good"" film"\n0,dull\n2,"two\nlines"\n',
    "tsv": "1\ta fine film\n0\tdull\n\n4\tüber\n",
    "conll": "Ada B-PER\nwrote O\n\n-DOCSTART- O\n\nWhy O\n",
    "conllu": _CONLLU,
    "trees": "(1 (0 not) (3 bad))\n(2 film)\n((S (NP it)\n (VP (V is) (ADJ so))))\n",
    "text": "abcabdabcabd\nüber\r\n",
}
_READERS: dict[str, Callable[[Path], Any]] = {
    "csv": lambda path: datasets.Table(path, (int, str), header=True, delimiter=",").rows,
    "tsv": lambda path: datasets.Table(path, (int, str.split)).rows,
    "conll": lambda path: datasets.CoNLL(path).sentences,
    "conllu": lambda path: datasets.CoNLLU(path).sentences,
    "trees": lambda path: [(str(tree), tree.depth(), tree.leaves()) for tree in datasets.Trees(path)],
    "text": lambda path: list(datasets.CharacterText(path, 3)),
}


def _texts(kind: str) -> list[Good]:
    raw = _TEXTS[kind].encode()
    return [alone(raw), alone(gzip.compress(raw, mtime=0))]


def _changed_text(raw: bytes, chance: random.Random) -> bytes:
    """The content of a gzip file, or a line of a text doubled, left out, or put elsewhere."""
    if raw[:2] == b"\x1f\x8b":
        return mutations.changed_gzip(raw, chance)
    lines = raw.split(b"\n")
    place = chance.randrange(len(lines))
    if chance.random() < 0.5:
        lines.insert(chance.randrange(len(lines)), lines[place])
    else:
        lines[place] = chance.choice(
            [b"", b"\0", b"(" * 200, b'"' * 3, b"\t" * 20, b"\r", b"9" * 500, lines[place] + b" x"]
        )
    return b"\n".join(lines)


def _idx() -> list[Good]:
    values = bytes([0, 0, 13, 2, 0, 0, 0, 2, 0, 0, 0, 3]) + struct.pack(">6f", *range(6))
    bytes_only = bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 255, 51, 0])
    return [alone(raw) for raw in (values, bytes_only, gzip.compress(values, mtime=0))]


def _changed_idx(raw: bytes, chance: random.Random) -> bytes:
    return mutations.changed_gzip(raw, chance) if raw[:2] == b"\x1f\x8b" else mutations.changed_bytes(raw, chance)


# --- caches and packs of kernels ----------------------------------------------------------------------------------------------

_ENTRIES = {f"{number:040x}": bytes([number]) * 50 for number in (1, 7, 9)}


def _entries_of_caches() -> list[Good]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "entry"
        cache_files.write(path, kernel_cache._MAGIC, "entry", b"machine code" * 9)
        return [alone(path.read_bytes(), "entry")]


def _read_entry(path: Path) -> Any:
    payload, _ = cache_files.read(path, kernel_cache._MAGIC, "entry")
    if payload is None:
        raise Refused
    return payload


def _packs() -> list[Good]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "level.pack"
        packs.write(path, {"level": "level", "numba": "1", "system": "linux"}, _ENTRIES)
        return [alone(path.read_bytes())]


def _read_pack(path: Path) -> Any:
    pack = packs.Pack.open(path)
    return [pack.made_for, [(name, pack.read(name)) for name in pack.names()]]


# --- requests to a service ----------------------------------------------------------------------------------------------------

_TENSOR = {"name": "x", "datatype": "FP32", "shape": [3], "data": [1.0, 2.5, -3.0]}
_BINARY = json.dumps({"inputs": [{"name": "x", "datatype": "INT16", "shape": [2, 2], "parameters": {"binary_data_size": 8}}], "parameters": {"binary_data_output": True}}).encode()  # fmt: skip
_REQUESTS = {
    "plain": json.dumps({"inputs": [_TENSOR], "id": "7"}).encode(),
    "outputs": json.dumps({"inputs": [_TENSOR | {"name": "a"}, _TENSOR], "outputs": [{"name": "a", "parameters": {"binary_data": True}}]}).encode(),
    "strings": json.dumps({"inputs": [{"name": "x", "datatype": "BYTES", "shape": [1, 2], "data": [["a", "b"]]}]}).encode(),
    "binary": len(_BINARY).to_bytes(4, "little") + _BINARY + struct.pack("<4h", 1, 2, 3, 4),
    "row": b"[1.0, 2.5, 3.0]",
}  # fmt: skip


@functools.cache
def _service() -> Any:
    """The routes of a service whose models give back what they get."""
    from dynograd.serving import Service
    from tools.fuzz_serving import mean

    service = Service(max_body=100_000)
    service.add("echo", lambda tensors: tensors)
    service.add("mean", lambda row: row.mean(), decode=mean)
    return service, service.app()


def _post(path: Path) -> Any:
    """The answer to the file as a body; the length of the JSON of a binary one stands before it."""
    body = path.read_bytes()
    kind, headers, route = path.name, [], "/v2/models/echo/infer"
    if kind == "binary":
        headers.append((b"inference-header-content-length", str(int.from_bytes(body[:4], "little")).encode()))
        body = body[4:]
    code, answer = _answer("/mean" if kind == "row" else route, body, headers)
    if 400 <= code < 500:
        assert isinstance(json.loads(answer)["error"], str)
        raise Refused(code)
    assert code == 200, f"{code} {answer!r:.300}"
    return answer


def _answer(route: str, body: bytes, headers: list[tuple[bytes, bytes]]) -> tuple[int, bytes]:
    """Asks the application itself: no sockets."""
    _, app = _service()
    messages: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": route,
        "raw_path": route.encode(),
        "query_string": b"",
        "headers": headers,
    }
    _loop().run_until_complete(app({**scope, "http_version": "1.1", "scheme": "http", "server": ("x", 1), "client": ("y", 2), "root_path": "", "state": {}}, receive, send))  # fmt: skip
    return messages[0]["status"], b"".join([message.get("body", b"") for message in messages])


@functools.cache
def _loop() -> Any:
    import asyncio

    return asyncio.new_event_loop()


# --- the table ----------------------------------------------------------------------------------------------------------------

_CHECKPOINT = (CheckpointError,)
FORMATS: dict[str, Format] = {
    "checkpoint": Format(_checkpoints, _load_both_ways, _CHECKPOINT, (mutations.changed_checkpoint,), checked=True),
    "safetensors": Format(_others, _load_both_ways, _CHECKPOINT, (mutations.changed_safetensors,)),
    "pt": Format(_torch_zips, _load_both_ways, _CHECKPOINT, (mutations.changed_zip,)),
    "pt-legacy": Format(lambda: [alone(torch_files.legacy(torch_files.checkpoint()))], _load, _CHECKPOINT),
    "records": Format(_torch_zips, _records, (RuntimeError,), (mutations.changed_zip,)),
    "npz": Format(_npz, _load, _CHECKPOINT, (mutations.changed_zip,)),
    "gguf": Format(_gguf, lambda path: dg.saving.load_gguf(path, "cpu"), _CHECKPOINT),
    "folder": Format(_model_folders, _load_folder, _CHECKPOINT, (_changed_of_a_folder,)),
    "run": Format(_runs, _load_run, (CheckpointError, Refused), (mutations.changed_checkpoint,), checked=True),
    "program": Format(_programs, _load_program, (ProgramError,), (mutations.changed_checkpoint,), checked=True),
    "program-run": Format(_programs, _run_program, (ProgramError, Refused), (mutations.changed_checkpoint,), checked=True, runs=True),
    "onnx": Format(_onnx_models, _load_onnx, (OnnxError,), (_changed_message,)),
    "idx": Format(_idx, datasets.read_idx, (DataFileError,), (_changed_idx,)),
    **{kind: Format(functools.partial(_texts, kind), _READERS[kind], (DataFileError,), (_changed_text,)) for kind in _TEXTS},
    "kernel": Format(_entries_of_caches, _read_entry, (Refused,), checked=True),
    "pack": Format(_packs, _read_pack, (packs.Unfit,), (mutations.changed_head,), checked=True),
    "request": Format(lambda: [alone(raw, name) for name, raw in _REQUESTS.items()], _post, (Refused,), (lambda raw, chance: _changed_request(raw, chance),)),
}  # fmt: skip


def _changed_request(raw: bytes, chance: random.Random) -> bytes:
    if raw[4:5] != b"{" or raw[:1] in b"{[":
        return mutations.changed_json(raw, chance)
    length = int.from_bytes(raw[:4], "little")
    header = mutations.changed_json(raw[4 : 4 + length], chance)
    return len(header).to_bytes(4, "little") + header + raw[4 + length :]
