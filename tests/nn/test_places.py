"""The note on an exception that says where in a model it arose."""

import pickle
import traceback
from pathlib import Path

import pytest

import dynograd
from dynograd import nn
from dynograd.nn import places

ones = dynograd.ones


def notes_of(call):
    with pytest.raises(Exception) as caught:
        call()
    return [note for note in getattr(caught.value, "__notes__", []) if note.startswith("in module ")], caught.value


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32), 2)
        self.encoder.layers[1].linear2 = nn.Linear(30, 16)

    def forward(self, x):
        return self.encoder(x)


def test_the_path_of_a_deep_layer():
    notes, error = notes_of(lambda: Model()(dynograd.randn(3, 2, 16)))
    assert notes == [
        "in module Model.encoder.layers.1.linear2: Linear(in_features=30, out_features=16, bias=True) with weight (16, 30), bias (16,)"
    ]
    assert "in module" not in str(error) and type(error) is dynograd.errors.ShapeError
    text = "".join(traceback.format_exception(error))
    assert notes[0] in text and "matmuls.py" in text


def frames_of(error):
    """(file, function, whether its line can be shown) of each frame of the library."""
    frames = traceback.extract_tb(error.__traceback__)
    return [
        (Path(frame.filename).name, frame.name, bool(frame.line)) for frame in frames if "tests" not in frame.filename
    ]


class Around(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.ReLU(), nn.Sequential(nn.Linear(4, 5), nn.Linear(6, 2)))

    def forward(self, x):
        return self.layers(x)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("hooked", [False, True])
def test_a_traceback_shows_each_forward_and_what_raised(again, hooked):
    """As a user's first call meets it, and a later one, when functions have been written."""
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(6, 2))
    if hooked:
        model[2].register_forward_hook(lambda *inputs: None)
    for _ in range(1 + again):
        _, error = notes_of(lambda: model(ones(3, 4)))
    assert frames_of(error) == [
        ("module.py", "__call__", True),
        ("containers.py", "forward", True),
        ("linear.py", "forward", True),
        ("matmuls.py", "linear", True),
    ]
    _, error = notes_of(lambda: Around()(ones(3, 4)))
    assert [name for _, name, _ in frames_of(error)] == ["__call__", "forward", "forward", "forward", "linear"]
    assert [frame.name for frame in traceback.extract_tb(error.__traceback__) if "tests" in frame.filename][
        -1
    ] == "forward"


def test_a_traceback_without_the_readers_of_calls():
    class Own(dynograd.Tensor):
        pass

    with dynograd.autocast("cpu"):
        _, error = notes_of(lambda: nn.Sequential(nn.Linear(6, 2))(ones(3, 4).as_subclass(Own)))
    assert {file for file, _, _ in frames_of(error)}.isdisjoint({"guards.py", "autocasting.py"})
    assert frames_of(error)[-1][1] == "linear"


def test_a_whole_traceback(monkeypatch):
    monkeypatch.setattr(places, "_full_tracebacks", True)
    _, error = notes_of(lambda: nn.Sequential(nn.Linear(6, 2))(ones(3, 4)))
    assert [name for _, name, _ in frames_of(error)].count("__call__") == 2
    assert "generated" not in str(error) and len(frames_of(error)) > 4


def test_with_hooks_and_own_exceptions():
    class Fails(nn.Module):
        def forward(self, x):
            raise KeyError("mine")

    model = nn.Sequential(nn.Identity(), Fails())
    model[1].register_forward_hook(lambda *inputs: None)
    notes, error = notes_of(lambda: model(ones(1)))
    assert notes == ["in module Sequential.1: Fails()"] and error.args == ("mine",)


def test_a_module_that_is_no_part_of_the_caller():
    class Borrows(nn.Module):
        def forward(self, x):
            return OTHER(x)

    notes, _ = notes_of(lambda: nn.Sequential(Borrows())(ones(1, 2)))
    assert notes[0].startswith("in module Sequential.0 -> Linear: Linear(in_features=3")


OTHER = nn.Linear(3, 1)


def test_an_exception_that_is_caught_on_the_way_gets_a_new_note_next_time():
    model = nn.Sequential(nn.Linear(3, 1))
    first, element = notes_of(lambda: model(ones(1, 2)))
    second, two = notes_of(lambda: model[0](ones(1, 2)))
    assert element is not two
    assert first[0].startswith("in module Sequential.0:") and second[0].startswith("in module Linear:")


def test_exceptions_with_notes_can_be_pickled():
    _, error = notes_of(lambda: nn.Sequential(nn.Linear(3, 1))(ones(1, 2)))
    again = pickle.loads(pickle.dumps(error))
    assert again.__notes__ == error.__notes__


def test_a_module_that_cannot_be_described():
    class Odd(nn.Module):
        def extra_repr(self):
            raise ValueError("no")

        def forward(self, x):
            raise IndexError("mine")

    notes, error = notes_of(lambda: Odd()(1))
    assert notes == ["in module Odd"] and isinstance(error, IndexError)


def test_a_model_dies_while_the_error_lives():
    import gc
    import weakref

    models = [nn.Sequential(nn.Linear(3, 1))]
    alive = weakref.ref(models[0])
    _, error = notes_of(lambda: models[0](ones(1, 2)))
    error.__traceback__ = None
    models.clear()
    gc.collect()
    assert alive() is None and error.__notes__
