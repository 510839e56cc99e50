"""Folders of models: the bytes that the safetensors library writes, cuts and index as transformers has them, and what is refused."""

from __future__ import annotations

import errno
import json
import os

import numpy
import pytest
from safetensors import safe_open
from safetensors.numpy import save as by_library

import dynograd as dg
from dynograd.base import dtypes, files
from dynograd.errors import CheckpointError
from dynograd.saving import load_folder, save_folder
from dynograd.saving.sharding import size_of
from tests.support.system_faults import FaultyOs

INDEX = "model.safetensors.index.json"


def same(tensors, expected):
    assert sorted(tensors) == sorted(expected)
    for name, x in expected.items():
        assert tensors[name].dtype is x.dtype and tensors[name].shape == x.shape, name
        assert tensors[name].contiguous().numpy().tobytes() == x.contiguous().numpy().tobytes(), name


def test_the_bytes_are_those_of_the_library(tmp_path):
    names = ["z", "a", "ü", 'with "quotes"', "line\nend", "\x01"]
    x = {
        f"{kind.name}.{name}": dg.tensor([[0, 1, 2], [1, 0, 3]]).to(kind)
        for kind in (*dtypes.ALL, *dtypes.FLOAT8)
        for name in names
    }
    x = {name: tensor for name, tensor in x.items() if tensor.dtype is not dg.complex128}
    x["turned"], x["empty"], x["number"] = dg.arange(6).view(2, 3).t(), dg.zeros(0, 2), dg.tensor(1.5)
    assert save_folder(x, tmp_path) == ["model.safetensors"]
    arrays = {name: numpy.ascontiguousarray(tensor.numpy()) for name, tensor in x.items()}
    arrays["number"] = arrays["number"].reshape(())
    assert (tmp_path / "model.safetensors").read_bytes() == by_library(arrays, {"format": "pt"})
    same(load_folder(tmp_path).tensors, x)
    assert load_folder(tmp_path).config is None


# bytes of tensors in their order, the most in a file -> the tensors in each file; `huggingface_hub` 2.4 gives the same
CUTS = [
    ((4, 4, 4), 100, [[0, 1, 2]]),
    ((4, 4, 4), 8, [[0, 1], [2]]),
    ((4, 4, 4), 4, [[0], [1], [2]]),
    ((4, 4, 4), 1, [[0], [1], [2]]),
    ((24, 8, 24, 8, 8), 40, [[0, 1], [2, 3, 4]]),
    ((8, 40, 8, 16), 32, [[1], [0, 2, 3]]),
    ((8, 40, 32, 4), 32, [[1], [0], [2], [3]]),
    ((40,), 32, [[0]]),
    ((), 32, [[]]),
]


@pytest.mark.parametrize(
    "text, size",
    [
        ("7", 7),
        ("1KB", 1000),
        ("2 MB", 2 * 10**6),
        ("5GB", 5 * 10**9),
        ("1.5KiB", 1536),
        ("3mib", 3 << 20),
        ("0.5GiB", 1 << 29),
    ],
)
def test_sizes_in_words(text, size):
    assert size_of(text) == size_of(size) == size


@pytest.mark.parametrize("sizes, limit, expected", CUTS)
def test_shards(tmp_path, sizes, limit, expected):
    x = {f"t.{number}": dg.full((size // 4,), float(number)) for number, size in enumerate(sizes)}
    names = save_folder(x, tmp_path, max_shard_size=limit)
    count = len(expected)
    assert names == (
        [f"model-{number + 1:05d}-of-{count:05d}.safetensors" for number in range(count)]
        if count > 1
        else ["model.safetensors"]
    )
    for name, numbers in zip(names, expected):
        with safe_open(tmp_path / name, "np") as file:
            assert sorted(file.keys()) == [f"t.{number}" for number in numbers] and file.metadata() == {"format": "pt"}
    if count > 1:
        text = (tmp_path / INDEX).read_text()
        weight_map = {f"t.{number}": name for name, numbers in zip(names, expected) for number in numbers}
        sizes = {"total_parameters": sum(sizes) // 4, "total_size": sum(sizes)}
        assert text == json.dumps({"metadata": sizes, "weight_map": weight_map}, indent=2, sort_keys=True) + "\n"
    same(load_folder(tmp_path).tensors, x)
    same(dg.load(tmp_path), x)


class Tied(dg.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = dg.nn.Embedding(5, 3), dg.nn.Linear(3, 5, bias=False)
        self.head.weight = self.embed.weight
        self.norm = dg.nn.BatchNorm1d(3)


@pytest.mark.parametrize("limit", ["5GB", 60])
def test_tied_weights_are_written_once(tmp_path, limit):
    model, config = Tied(), {"model_type": "tied", "list": [1, None, "ü"], "eps": 1e-5}
    save_folder(model, tmp_path, config, max_shard_size=limit)
    text = (tmp_path / "config.json").read_text()
    assert text == json.dumps(config, indent=2, sort_keys=True) + "\n"
    back = load_folder(tmp_path)
    same(back.tensors, model.state_dict())
    assert back.config == config and back.tensors["head.weight"].data_ptr() == back.tensors["embed.weight"].data_ptr()
    twin = Tied()
    twin.load_state_dict(back.tensors)
    assert dg.equal(twin.head.weight, model.embed.weight)
    if limit == 60:
        sizes = json.loads((tmp_path / INDEX).read_text())["metadata"]
        assert sizes == {"total_parameters": 15 + 6, "total_size": 4 * (15 + 12) + 8}
    file = (tmp_path / "model.safetensors") if limit != 60 else (tmp_path / "model-00001-of-00002.safetensors")
    with safe_open(file, "np") as opened:
        assert "head.weight" not in set(opened.keys()) and opened.metadata() == {
            "format": "pt",
            "head.weight": "embed.weight",
        }


def test_the_memory_is_that_of_the_files(tmp_path):
    save_folder({"a": dg.arange(1000.0), "b": dg.arange(3)}, tmp_path, max_shard_size=4000)
    mapped, read = load_folder(tmp_path).tensors, load_folder(tmp_path, mmap=False).tensors

    def owner(x):
        base = x.array
        while getattr(base, "base", None) is not None or hasattr(base, "obj"):
            base = base.obj if hasattr(base, "obj") else base.base
        return type(base).__name__

    assert owner(mapped["a"]) == owner(mapped["b"]) == "mmap" and owner(read["a"]) != "mmap"
    mapped["a"] += 1
    assert load_folder(tmp_path).tensors["a"][:2].tolist() == [0, 1]


def test_a_new_model_takes_the_place_of_the_old_one(tmp_path):
    three = {name: dg.ones(2) for name in "abc"}
    save_folder(three, tmp_path, {"number": 1}, max_shard_size=8)
    (tmp_path / "model-notes.txt").write_text("mine")
    save_folder({"a": dg.zeros(2), "b": dg.zeros(2)}, tmp_path, max_shard_size=8)
    names = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    assert sorted(os.listdir(tmp_path)) == sorted(["config.json", "model-notes.txt", INDEX, *names])
    assert load_folder(tmp_path).config == {"number": 1}
    save_folder(three, tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["config.json", "model-notes.txt", "model.safetensors"]
    save_folder(three, tmp_path, max_shard_size=8)
    assert "model.safetensors" not in os.listdir(tmp_path) and load_folder(tmp_path).tensors["c"].tolist() == [1, 1]


def test_a_full_disk_leaves_the_old_model(tmp_path, monkeypatch):
    old = {"a": dg.ones(2), "b": dg.ones(2)}
    save_folder(old, tmp_path, max_shard_size=8)
    before = sorted(os.listdir(tmp_path))
    for place in range(4):  # two files of two calls each
        monkeypatch.setattr(files, "os", FaultyOs(place, errno.ENOSPC, ("write",)))
        with pytest.raises(CheckpointError, match="save_folder: .*No space left on device"):
            save_folder({"a": dg.zeros(2), "b": dg.zeros(2)}, tmp_path, max_shard_size=8)
        assert sorted(os.listdir(tmp_path)) == before
        same(load_folder(tmp_path).tensors, old)


@pytest.mark.parametrize("first", [False, True])
def test_an_interruption_between_files_is_noticed(tmp_path, monkeypatch, first):
    """New files under the names of old ones are never read by the old index, nor one file as if it were all."""
    if not first:
        save_folder({"a": dg.ones(2), "b": dg.ones(2)}, tmp_path, max_shard_size=8)
    real, named = os.replace, []

    def replace(source, target):
        if source.endswith(".part"):
            if named:
                raise KeyboardInterrupt
            named.append(target)
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(KeyboardInterrupt):
        save_folder({"a": dg.zeros(2), "b": dg.zeros(2)}, tmp_path, max_shard_size=8)
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match=r"has none of model.safetensors.index.json.*model-00001-of-00002"):
        load_folder(tmp_path)
    save_folder({"a": dg.zeros(2), "b": dg.zeros(2)}, tmp_path, max_shard_size=8)
    assert load_folder(tmp_path).tensors["a"].tolist() == [0, 0] and not list(tmp_path.glob(".*"))


def write(folder, name, value):
    (folder / name).write_text(value if isinstance(value, str) else json.dumps(value))


UNREADABLE = {
    "a missing file": (
        lambda folder: os.unlink(folder / "model-00002-of-00003.safetensors"),
        r"lacks 1 of its 3 files: model-00002-of-00003",
    ),
    "no weights": (
        lambda folder: [os.unlink(path) for path in folder.glob("model*")],
        "has none of model.safetensors.index.json",
    ),
    "a path out of the folder": (
        lambda folder: write(folder, INDEX, {"weight_map": {"a": "../x.safetensors"}}),
        "lies outside of its folder",
    ),
    "an absolute path": (
        lambda folder: write(folder, INDEX, {"weight_map": {"a": "/etc/passwd"}}),
        "lies outside of its folder",
    ),
    "a drive": (lambda folder: write(folder, INDEX, {"weight_map": {"a": "C:x"}}), "lies outside of its folder"),
    "an index of a list": (lambda folder: write(folder, INDEX, []), "damaged index"),
    "another model's index": (
        lambda folder: write(folder, INDEX, {"weight_map": {"x": "model-00001-of-00003.safetensors"}}),
        r"says that 'x' is in model-00001-of-00003.safetensors, which has other tensors \(a\)",
    ),
    "a broken config": (lambda folder: write(folder, "config.json", "{"), r"config.json is damaged \(Expecting"),
    "a config of a list": (
        lambda folder: write(folder, "config.json", []),
        r"damaged \(a list, expected names and values\)",
    ),
    "a deep config": (lambda folder: write(folder, "config.json", "[" * 100_000), r"config.json is damaged"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read(tmp_path, name):
    save_folder({letter: dg.ones(2) for letter in "abc"}, tmp_path, {"a": 1}, max_shard_size=8)
    change, message = UNREADABLE[name]
    change(tmp_path)
    with pytest.raises(CheckpointError, match=message):
        load_folder(tmp_path)


def test_what_is_no_folder(tmp_path):
    dg.save([1], tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"holds a list, expected tensors by name"):
        load_folder(tmp_path)
    with pytest.raises(CheckpointError, match=r"is no folder. Pass the one that has config.json"):
        load_folder(tmp_path / "model.safetensors")


def test_folders_of_pytorchs_files(tmp_path):
    dg.save({"a": dg.ones(2)}, tmp_path / "pytorch_model.bin", format="pt")
    write(tmp_path, "config.json", {"a": 1})
    back = load_folder(tmp_path)
    assert back.tensors["a"].tolist() == [1, 1] and back.config == {"a": 1}


UNWRITABLE = [
    ([dg.ones(1)], {}, "expected a module or a dict of tensors by name, got list"),
    ({"a": 1}, {}, "expected dense tensors by name, but 'a' is a int"),
    ({"a": dg.ragged_tensor([dg.ones(1)])}, {}, "'a' is a RaggedTensor"),
    ({"a": dg.eye(2).to_sparse()}, {}, "'a' is sparse_coo"),
    ({"a": dg.ones(1, dtype=dg.complex128)}, {}, "of dynograd.complex128, which safetensors does not have"),
    ({"a": dg.ones(1)}, {"config": [1]}, "config is a dict of plain values"),
    (
        {"a": dg.ones(1)},
        {"config": {"a": dg.ones(1)}},
        r"not JSON serializable\). Of transformers' configs pass config.to_dict",
    ),
    ({"a": dg.ones(1)}, {"config": {"a": float("nan")}}, "config is a dict of plain values"),
]


@pytest.mark.parametrize("model, options, message", UNWRITABLE)
def test_what_cannot_be_written(tmp_path, model, options, message):
    with pytest.raises(TypeError, match=f"save_folder: .*{message}"):
        save_folder(model, tmp_path / "new", **options)
    assert not (tmp_path / "new").exists()
    with pytest.raises(ValueError, match="max_shard_size"):
        save_folder({}, tmp_path, max_shard_size=0)
