"""State_dicts in several files: written and read with their index, read as Hugging Face's libraries write them, refused when damaged."""

import io
import json
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import dynograd as dg
from dynograd import convert
from dynograd.errors import CheckpointError
from dynograd.saving import sharding

INDEX = "model.safetensors.index.json"


def state():
    values = np.random.default_rng(0).normal(size=(5, 64, 8)).astype(np.float32)
    created = {f"layers.{number}.weight": dg.tensor(value) for number, value in enumerate(values)}
    created["half"] = dg.arange(7, dtype=dg.float32).bfloat16()
    created["counts"] = dg.arange(3)
    created["empty"] = dg.zeros(0, 4)
    created["tied"] = created["layers.0.weight"]
    return created


def assert_same(result, wanted):
    assert set(result) == set(wanted)
    for name, element in wanted.items():
        assert result[name].dtype is element.dtype and result[name].tolist() == element.tolist(), name


@pytest.mark.parametrize("size, count", [(4096, 3), ("4KB", 5), (1, 8), ("1GB", 1), ("0.005MB", 3)])
def test_what_is_written_comes_back(tmp_path, size, count):
    folder = tmp_path / "model"
    dg.save(state(), folder, max_shard_size=size)
    files = sorted(path.name for path in folder.iterdir() if path.suffix == ".safetensors")
    assert len(files) == count
    assert files[0] == ("model.safetensors" if count == 1 else f"model-00001-of-{count:05d}.safetensors")
    result = dg.load(folder)
    assert_same(result, state())
    assert result["tied"].data_ptr() == result["layers.0.weight"].data_ptr()
    if count > 1:
        assert_same(dg.load(folder / INDEX, map_location="cpu"), state())
        index = json.loads((folder / INDEX).read_text())
        assert index["metadata"]["total_size"] == 5 * 64 * 8 * 4 + 7 * 2 + 3 * 8
        plain = {name: load_file(folder / file)[name] for name, file in index["weight_map"].items() if name != "half"}
        assert sorted([*plain, "half", "tied"]) == sorted(
            state()
        )  # tied tensors are there once, under their first name


def test_a_new_model_takes_the_place_of_the_old_one(tmp_path):
    dg.save(state(), tmp_path, max_shard_size=4096)
    dg.save({"a": dg.ones(2)}, tmp_path, max_shard_size="1GB")
    assert not (tmp_path / INDEX).exists() and not list(tmp_path.glob(".*"))
    assert dg.load(tmp_path)["a"].tolist() == [1.0, 1.0]


def test_modules_go_through_shards(tmp_path):
    model = dg.nn.Sequential(dg.nn.Linear(20, 30), dg.nn.BatchNorm1d(30), dg.nn.Linear(30, 2)).eval()
    dg.save(model.state_dict(), tmp_path, max_shard_size=1000)
    other = dg.nn.Sequential(dg.nn.Linear(20, 30), dg.nn.BatchNorm1d(30), dg.nn.Linear(30, 2)).eval()
    other.load_state_dict(dg.load(tmp_path))
    x = dg.randn(3, 20)
    assert model(x).tolist() == other(x).tolist()


def foreign(folder, files, index=INDEX, weight_map=None):
    """As another library writes it."""
    for name, tensors in files.items():
        save_file(tensors, folder / name)
    if weight_map is None:
        weight_map = {tensor: name for name, tensors in files.items() for tensor in tensors}
    (folder / index).write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map}))


def test_shards_of_other_libraries(tmp_path):
    files = {"m-1.safetensors": {"a": np.ones(3, np.float32)}, "m-2.safetensors": {"b": np.zeros((2, 2), np.int64)}}
    foreign(tmp_path, files, weight_map={"b": "m-2.safetensors", "a": "m-1.safetensors"})
    result = dg.load(tmp_path)
    assert list(result) == ["b", "a"] and result["a"].tolist() == [1.0] * 3 and result["b"].dtype is dg.int64


def test_a_folder_with_one_file(tmp_path):
    save_file({"a": np.ones(3, np.float32)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text("{}")
    assert dg.load(tmp_path)["a"].tolist() == [1.0] * 3
    (tmp_path / "model.safetensors").rename(tmp_path / "weights.safetensors")
    assert dg.load(tmp_path)["a"].tolist() == [1.0] * 3


ONE = {"m-1.safetensors": {"a": np.ones(1, np.float32)}}
DAMAGED = {
    "a missing file": (dict(files=ONE, weight_map={"a": "m-1.safetensors", "b": "m-2.safetensors"}), "lacks 1 of its 2 files: m-2.safetensors"),
    "a path upwards": (dict(files=ONE, weight_map={"a": "../m-1.safetensors"}), r"'../m-1.safetensors', which lies outside"),
    "an absolute path": (dict(files=ONE, weight_map={"a": "/etc/passwd"}), "/etc/passwd', which lies outside"),
    "a path of Windows": (dict(files=ONE, weight_map={"a": "C:\\x"}), "lies outside"),
    "the folder itself": (dict(files=ONE, weight_map={"a": ".."}), "lies outside"),
    "another tensor": (dict(files=ONE, weight_map={"b": "m-1.safetensors"}), "says that 'b' is in m-1.safetensors, which has other"),
    "a list": (dict(files=ONE, weight_map=["m-1.safetensors"]), "weight_map is a list"),
    "a number": (dict(files=ONE, weight_map={"a": 3}), "damaged index"),
}  # fmt: skip


def test_an_index_without_tensors(tmp_path):
    foreign(tmp_path, files={}, weight_map={})
    assert dg.load(tmp_path) == {}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_indexes_are_refused(tmp_path, name):
    options, words = DAMAGED[name]
    foreign(tmp_path, **options)
    with pytest.raises(CheckpointError, match=words):
        dg.load(tmp_path)


def test_what_is_no_model(tmp_path):
    with pytest.raises(CheckpointError, match="has none of model.safetensors.index.json.*it is empty"):
        dg.load(tmp_path)
    (tmp_path / "readme.md").write_text("x")
    with pytest.raises(CheckpointError, match=r"it has readme.md. Pass the path of a file"):
        dg.load(tmp_path)
    (tmp_path / INDEX).write_text("{")
    with pytest.raises(CheckpointError, match="damaged index.*JSONDecodeError"):
        dg.load(tmp_path)
    (tmp_path / INDEX).write_text("{}")
    with pytest.raises(CheckpointError, match="damaged index.*KeyError.*weight_map"):
        dg.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        dg.load(tmp_path / "other.index.json")


@pytest.mark.parametrize("size", [0, -1, True, 2.5, "5 potatoes", "GB", None])
def test_sizes(size):
    with pytest.raises(ValueError, match="max_shard_size: expected a .*number of bytes.*got"):
        sharding.size_of(size)


def test_only_tensors_go_into_shards(tmp_path):
    with pytest.raises(TypeError, match="'optimizer' is a dict.*checkpoint.safetensors"):
        dg.save({"optimizer": {"lr": 1}}, tmp_path / "x", max_shard_size="1GB")


# --- python -m dynograd.convert ------------------------------------------------------------------------------------------------


def test_from_shards_into_one_file_and_back(tmp_path, capsys):
    dg.save(state(), tmp_path / "shards", max_shard_size=4096)
    element, more = tmp_path / "one.safetensors", tmp_path / "more"
    assert convert.main([str(tmp_path / "shards"), str(element)]) == 0
    assert capsys.readouterr().out == f"{element}: {element.stat().st_size} bytes\n"
    assert_same(dg.load(element), state())
    assert convert.main([str(element), str(more), "--max-shard-size", "2KB", "--quiet"]) == 0
    assert capsys.readouterr().out == "" and len(list(more.glob("*.safetensors"))) > 3
    assert_same(dg.load(more), state())
    again = tmp_path / "again"
    assert convert.main([str(more / INDEX), f"{again}/"]) == 0
    assert [path.name for path in again.iterdir()] == ["model.safetensors"]


def test_mistakes_are_told(tmp_path, capsys):
    dg.save(state(), tmp_path / "shards", max_shard_size=4096)
    dg.save([1, 2], tmp_path / "list.safetensors")
    (tmp_path / "broken.pt").write_bytes(b"PK\x03\x04nothing")
    shards = str(tmp_path / "shards")
    for arguments, words in [
        (["absent.pt", "b.safetensors"], "convert: error: 'absent.pt': No such file"),
        ([str(tmp_path / "broken.pt"), "b.safetensors"], "truncated or damaged"),
        ([shards, "b.bin"], "neither a .safetensors file (or .pt, .npz) nor a folder"),
        ([shards, shards], "is the folder of the source"),
        ([f"{shards}/{INDEX}", f"{shards}/"], "is the folder of the source"),
        ([shards, "b", "--max-shard-size", "big"], "max_shard_size: expected a number of bytes"),
        ([str(tmp_path / "list.safetensors"), str(tmp_path / "x/") + "/"], "holds a list, and only dicts"),
    ]:
        assert convert.main(arguments) == 2
        said = capsys.readouterr().err
        assert words in said and said.count("\n") == 1


def test_files_of_other_libraries(tmp_path):
    from tests.saving.test_gguf_files import gguf_file, place

    (tmp_path / "a.gguf").write_bytes(gguf_file((), [place("w", (2, 3), 1, 0)], np.arange(6, dtype="<f2").tobytes()))
    for source, target in (
        ("a.gguf", "b.npz"),
        ("b.npz", "c.pt"),
        ("c.pt", "d.safetensors"),
        ("d.safetensors", "e.pt"),
    ):
        assert convert.main([str(tmp_path / source), str(tmp_path / target), "--quiet"]) == 0
        back = dg.load(tmp_path / target)
        assert back["w"].dtype is dg.float16 and back["w"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert (tmp_path / "c.pt").read_bytes() == (tmp_path / "e.pt").read_bytes()
    assert np.load(tmp_path / "b.npz")["w"].dtype == np.float16


def test_help():
    result = subprocess.run(
        [sys.executable, "-m", "dynograd.convert", "--help"], capture_output=True, text=True, check=True
    )
    assert "--max-shard-size" in result.stdout and "examples:" in result.stdout


# --- arguments of load ---------------------------------------------------------------------------------------------------------


def test_arguments_that_mean_nothing_here_are_refused(tmp_path):
    import pickle
    import types

    path = tmp_path / "a.safetensors"
    dg.save({"a": dg.ones(2)}, path)
    for options in (dict(pickle_module=pickle), dict(weights_only=False), dict(encoding="latin1"), dict(mmap=True)):
        assert dg.load(path, **options)["a"].tolist() == [1.0, 1.0]
    for error, words, options in [
        (
            ValueError,
            "pickle_module=dill is not supported: dynograd unpickles nothing",
            dict(pickle_module=types.ModuleType("dill")),
        ),
        (TypeError, "unexpected keyword argument 'map_locaton'", dict(map_locaton="cpu")),
        (TypeError, "weights_only is True, False or None, got 'yes'", dict(weights_only="yes")),
    ]:
        with pytest.raises(error, match=words):
            dg.load(path, **options)
    with pytest.raises(ValueError, match="f must be a file path in order to use the mmap argument"):
        dg.load(io.BytesIO(path.read_bytes()), mmap=True)
