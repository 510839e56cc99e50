"""save and load: what goes in comes out, nothing runs, and a failed write leaves the old file alone."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import enum
import fractions
import io
import os
import pathlib
import pickle
import threading
import zipfile
from collections import OrderedDict

import numpy
import pytest

import dynograd as dg
from dynograd import nn
from dynograd.errors import CheckpointError
from dynograd.saving.objects import own_function


def same(one, two):
    if isinstance(one, dg.Tensor):
        assert one.dtype is two.dtype and tuple(one.shape) == tuple(two.shape)
        assert one.detach().numpy().tobytes() == two.detach().numpy().tobytes()
    elif isinstance(one, dict):
        assert list(one) == list(two)
        for key in one:
            same(one[key], two[key])
    elif isinstance(one, (list, tuple)):
        assert type(one) is type(two) and len(one) == len(two)
        for a, b in zip(one, two, strict=True):
            same(a, b)
    else:
        assert repr(one) == repr(two)


DTYPES = [dg.float32, dg.float64, dg.float16, dg.bfloat16, dg.int64, dg.int32, dg.int16, dg.int8, dg.uint8, dg.bool]
DTYPES += [dg.uint16, dg.uint32, dg.uint64]


@pytest.mark.parametrize("dtype", [*DTYPES, dg.complex64, dg.complex128], ids=str)
def test_tensors_of_every_dtype_come_back(tmp_path, dtype):
    created = dg.tensor([[0, 1], [1, 0]]).to(dtype)
    dg.save(created, tmp_path / "x")
    same(created, dg.load(tmp_path / "x"))


def test_structures_come_back(tmp_path):
    state = {
        "epoch": 3,
        "loss": float("inf"),
        "name": "größe",
        "none": None,
        "flags": [True, False],
        "pair": (1, 2.5, (3,)),
        "by_number": {0: dg.ones(2), 1: {"step": dg.tensor(1.0)}},
        "empty": {"list": [], "dict": {}, "tensor": dg.zeros(0, 3)},
        "size": dg.Size([2, 3]),
        "dtype": dg.float16,
        "device": dg.device("cpu"),
        "raw": b"\x00\xff",
        "complex": 1 + 2j,
    }
    dg.save(state, tmp_path / "x")
    same(state, dg.load(tmp_path / "x"))


def test_numpy_arrays_and_scalars_come_back(tmp_path):
    dg.save({"array": numpy.arange(3), "scalar": numpy.float64(2.5)}, tmp_path / "x")
    result = dg.load(tmp_path / "x")
    assert result["array"].tolist() == [0, 1, 2] and result["scalar"] == 2.5


def test_strided_tensors_and_file_objects():
    created = dg.arange(6.0).reshape(2, 3).t()
    buffer = io.BytesIO()
    dg.save({"t": created}, buffer)
    buffer.seek(0)
    assert dg.load(buffer)["t"].tolist() == created.tolist()


@pytest.mark.parametrize("format", ["safetensors", "pt"])
def test_an_open_file_holds_all_when_save_returns(tmp_path, format):
    with open(tmp_path / "x", "wb") as file:
        dg.save({"t": dg.arange(3)}, file, format=format)
        assert dg.load(tmp_path / "x")["t"].tolist() == [0, 1, 2]


def test_shared_tensors_are_stored_once_and_shared_again(tmp_path):
    weight = dg.randn(100, 100)
    dg.save({"a": weight, "b": weight}, tmp_path / "x")
    assert os.path.getsize(tmp_path / "x") < 50_000
    result = dg.load(tmp_path / "x")
    result["a"].zero_()
    assert result["b"].abs().sum().item() == 0


def test_loaded_tensors_can_be_written_and_keep_requires_grad(tmp_path):
    dg.save(dg.ones(2, requires_grad=True), tmp_path / "x")
    result = dg.load(tmp_path / "x")
    assert result.requires_grad
    with dg.no_grad():
        result.add_(1)


def test_a_model_its_optimizer_and_scheduler_continue(tmp_path):
    def build():
        dg.manual_seed(1)
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        optimizer = dg.optim.Adam(model.parameters(), lr=0.1)
        return model, optimizer, dg.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)

    def train(model, optimizer, scheduler, steps):
        for _ in range(steps):
            optimizer.zero_grad()
            model(dg.ones(2, 3)).pow(2).sum().backward()
            optimizer.step()
            scheduler.step()

    straight = build()
    train(*straight, 6)
    first = build()
    train(*first, 3)
    dg.save([part.state_dict() for part in first], tmp_path / "x")
    second = build()
    for part, state in zip(second, dg.load(tmp_path / "x"), strict=True):
        part.load_state_dict(state)
    train(*second, 3)
    same(dict(straight[0].state_dict()), dict(second[0].state_dict()))


def test_state_dict_metadata_survives(tmp_path):
    state = nn.Sequential(nn.BatchNorm1d(3)).state_dict()
    dg.save(state, tmp_path / "x")
    result = dg.load(tmp_path / "x")
    assert isinstance(result, OrderedDict) and result._metadata["0"] == {"version": 2}


def test_other_tools_read_the_tensors_by_name(tmp_path):
    from safetensors.numpy import load_file, save_file

    dg.save({"model": nn.Linear(2, 1).state_dict()}, tmp_path / "x.safetensors")
    assert sorted(load_file(tmp_path / "x.safetensors")) == ["model.bias", "model.weight"]
    save_file({"w": numpy.ones(2, numpy.float32)}, tmp_path / "y.safetensors")
    assert dg.load(tmp_path / "y.safetensors")["w"].tolist() == [1.0, 1.0]


class Trap:
    """Unpickling this would call `die`."""

    def __reduce__(self):
        return (die, ())


def die():
    raise AssertionError("a checkpoint ran code")


def damaged_files():
    buffer = io.BytesIO()
    dg.save({"weight": dg.arange(10.0), "n": 1}, buffer)
    good = buffer.getvalue()
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Trap()))
    flipped = bytearray(good)
    flipped[-2] ^= 1
    return {
        "empty": (b"", "is empty"),
        "truncated": (good[:-3], "truncated or damaged"),
        "header cut": (good[:30], "truncated or damaged"),
        "a flipped bit": (bytes(flipped), r"tensor 'weight' have checksum"),
        "text": (b"epoch,loss\n1,2.0\n", "not a checkpoint"),
        "a zip of torch": (zipped.getvalue(), r"holds .*die.*not data.*safetensors"),
        "a pickle": (pickle.dumps(Trap()), "pickle.*not read"),
    }


@pytest.mark.parametrize("kind", list(damaged_files()))
def test_damaged_and_foreign_files(tmp_path, kind):
    raw, words = damaged_files()[kind]
    (tmp_path / "x").write_bytes(raw)
    with pytest.raises(CheckpointError, match=words) as caught:
        dg.load(tmp_path / "x")
    assert str(tmp_path / "x") in str(caught.value)


def test_a_missing_file_is_pythons_own_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        dg.load(tmp_path / "nothing")


@pytest.mark.parametrize("step", ["open", "fsync", "replace"])
def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch, step):
    path = tmp_path / "x"
    dg.save({"epoch": 1}, path)

    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"os.{step}", fail)
    with pytest.raises(CheckpointError, match=r"No space left on device.*untouched"):
        dg.save({"epoch": 2}, path)
    monkeypatch.undo()
    assert dg.load(path) == {"epoch": 1}
    assert os.listdir(tmp_path) == ["x"]


def test_what_is_not_data_is_refused_with_its_place(tmp_path):
    with pytest.raises(TypeError, match=r"a\.1 is a function.*not data"):
        dg.save({"a": [1, lambda: 1]}, tmp_path / "x")
    with pytest.raises(TypeError, match=r"lock is a lock, which is not data.*cannot pickle"):
        dg.save({"lock": threading.Lock()}, tmp_path / "x")
    assert os.listdir(tmp_path) == []


# --- objects --------------------------------------------------------------------------------------------------------------------

Place = collections.namedtuple("Place", "street number")


class Options:
    def __init__(self, **values):
        self.__dict__.update(values)

    def __eq__(self, other):
        return type(other) is type(self) and vars(other) == vars(self)


class Slots:
    __slots__ = ("x",)

    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return self.x == other.x


class Stateful(Options):
    def __getstate__(self):
        return {"packed": list(vars(self).items())}

    def __setstate__(self, state):
        self.__dict__.update(dict(state["packed"]))

    __eq__ = Options.__eq__


class Words(list):
    pass


class Names(dict):
    pass


class Colour(enum.Enum):
    RED = "r"


@dataclasses.dataclass
class Config:
    size: int
    parts: tuple = ()


OBJECTS = {
    "a namedtuple": Place("Elm", 3),
    "attributes": Options(rate=0.1, inner=Options(x=None), deep={"a": [Options(y=(1, 2))]}),
    "slots": Slots([1, 2]),
    "a state of its own": Stateful(a=1),
    "a list's class": Words([1, Place(1, 2)]),
    "a dict's class": Names(a=Place(1, 2)),
    "an enum": Colour.RED,
    "a dataclass": Config(3, (Config(1),)),
    "a function": die,
    "a class": Options,
    "keys": {(1, 2): 3, Colour.RED: 4, None: 5},
}
PLAIN_OBJECTS = {
    "a deque": collections.deque([1, 2], 3),
    "a counter": collections.Counter("aab"),
    "a defaultdict": collections.defaultdict(list, {"a": [1]}),
    "a date": datetime.datetime(2026, 1, 2, 3),
    "a path": pathlib.PurePosixPath("a/b"),
    "a frozen set": frozenset({1, 2}),
    "a range": range(1, 9, 2),
    "a fraction": fractions.Fraction(1, 3),
    "a type": float,
}
TRUSTED = [Place, Options, Slots, Stateful, Words, Names, Colour, Config, die]


def through_a_file(value, trusted=()):
    file = io.BytesIO()
    dg.save({"value": value}, file)
    file.seek(0)
    with dg.serialization.safe_globals(list(trusted)):
        return dg.load(file)["value"]


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_of_trusted_classes_come_back(name):
    value = through_a_file(OBJECTS[name], TRUSTED)
    assert value == OBJECTS[name] and type(value) is type(OBJECTS[name])


@pytest.mark.parametrize("name", PLAIN_OBJECTS)
def test_pythons_own_objects_come_back(name):
    value = through_a_file(PLAIN_OBJECTS[name])
    assert value == PLAIN_OBJECTS[name] and type(value) is type(PLAIN_OBJECTS[name])


@pytest.mark.parametrize("name", sorted(set(OBJECTS) - {"a state of its own"}))
def test_objects_of_other_classes_are_refused(name):
    with pytest.raises(
        CheckpointError, match=r"holds an object of .*\.\w+, which is not data.*add_safe_globals\(\[\w+\]\)"
    ):
        through_a_file(OBJECTS[name])


def test_a_file_calls_nothing_that_is_not_trusted():
    with pytest.raises(CheckpointError, match=r"holds an object of .*die"):
        through_a_file(Trap())
    with pytest.raises(CheckpointError, match=r"cannot be made again \(AssertionError: a checkpoint ran code\)"):
        through_a_file(Trap(), [die])  # the program has said so


def test_objects_keep_their_identity():
    shared = Options(x=dg.ones(2))
    shared.itself = shared
    first, second = through_a_file([shared, shared], TRUSTED)
    assert first is second and first.itself is first and first.x.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", sorted(set(OBJECTS) - {"keys", "a class", "a function"}))
def test_objects_in_pytorchs_files(name):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"value": OBJECTS[name]}, protocol=2))
        archive.writestr("archive/version", "3")
    with pytest.raises(CheckpointError, match=r"not data.*add_safe_globals\(\[\w+\]\)"):
        dg.load(io.BytesIO(file.getvalue()))
    with dg.serialization.safe_globals(TRUSTED):
        assert dg.load(io.BytesIO(file.getvalue()))["value"] == OBJECTS[name]


def test_a_class_that_has_moved():
    value = Place(1, 2)
    file = io.BytesIO()
    dg.save(value, file)
    file.seek(0)
    with dg.serialization.safe_globals([(tuple, f"{Place.__module__}.Place")]), pytest.raises(CheckpointError):
        dg.load(file)
    file.seek(0)
    Moved = collections.namedtuple("Moved", "street number")
    with dg.serialization.safe_globals([(Moved, f"{Place.__module__}.Place")]):
        assert dg.load(file) == Moved(1, 2)


def test_models_of_dynograds_layers_come_back():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.LSTM(3, 2))
    again = through_a_file(model)
    assert repr(again) == repr(model) and again[0].weight.requires_grad
    x = dg.randn(4, 2)
    assert dg.equal(again.eval()(x)[0], model.eval()(x)[0])


def test_loading_to_a_device_that_is_not_there(tmp_path):
    dg.save(dg.ones(1), tmp_path / "x")
    assert dg.load(tmp_path / "x", map_location="cpu").tolist() == [1.0]
    with pytest.raises(dg.errors.DeviceError, match="no CUDA device"):
        dg.load(tmp_path / "x", map_location="cuda")


def test_errors_of_map_location_are_its_own(tmp_path):
    dg.save(dg.ones(1), tmp_path / "x")
    with pytest.raises(ZeroDivisionError):
        dg.load(tmp_path / "x", map_location=lambda storage, place: 1 / 0)


def test_a_newer_format_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("dynograd.saving.checkpoint_files.FORMAT", 3)
    dg.save({"a": 1}, tmp_path / "x")
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match=r"format 3.*reads format 2.*Update dynograd"):
        dg.load(tmp_path / "x")


@pytest.mark.parametrize("activation", ["relu", "gelu", dg.nn.functional.silu, dg.tanh, dg.relu])
def test_layers_that_hold_functions_are_loaded_whole(tmp_path, activation):
    layer = dg.nn.TransformerEncoderLayer(4, 2, 8, activation=activation).eval()
    dg.save(layer, tmp_path / "layer")
    again = dg.load(tmp_path / "layer", weights_only=False)
    x = dg.ones(3, 2, 4)
    assert again.activation is layer.activation and again(x).tolist() == layer(x).tolist()


def _doubled(x):
    return 2 * x


def test_functions_of_programs_are_not_loaded(tmp_path):
    dg.save({"function": _doubled}, tmp_path / "file")
    with pytest.raises(CheckpointError, match="_doubled.*has not said that it trusts"):
        dg.load(tmp_path / "file")
    for name in (
        "dynograd.load",
        "dynograd.hub.load",
        "dynograd.nn.functional.Any",
        "dynograd.nn.init.kaiming_normal_",
    ):
        assert own_function(name) is None
