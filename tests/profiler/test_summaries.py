"""`dynograd.summary`: shapes, parameters, time, memory, what is unused; and that the model stays as it was."""

from types import SimpleNamespace
from xml.dom import minidom

import pytest

import dynograd
from dynograd import nn, summary


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, 8)
        self.rnn = nn.LSTM(8, 16, batch_first=True)
        self.drop = nn.Dropout(0.5)
        self.norm = nn.LayerNorm(16)
        self.out = nn.Linear(16, 3)
        self.spare = nn.Linear(4, 4)

    def forward(self, x):
        y, _ = self.rnn(self.words(x))
        return self.out(self.norm(self.drop(y))).sum(1)


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(2, 3), nn.LazyLinear(3)
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x, y, scale=1):
        return {"sum": self.norm(self.left(x) * scale + self.right(y)), "parts": [x, y]}


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(self.layer(x))


class Other(nn.Module):
    def forward(self, x):
        return SimpleNamespace(logits=x * 2, note="text")


def words(*lengths):
    return dynograd.ragged_tensor([dynograd.randint(0, 50, (n,)) for n in lengths])


CASES = {  # model, input -> (name, output, parameters, calls) of some layers
    "linear": (lambda: nn.Linear(2, 3), lambda: (dynograd.ones(4, 2),), [("", "(4, 3)", 9, 1)]),
    "sequence": (
        lambda: nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1, bias=False)),
        lambda: (dynograd.ones(4, 2),),
        [("", "(4, 1)", 12, 1), ("0", "(4, 3)", 9, 1), ("1", "(4, 3)", 0, 1), ("2", "(4, 1)", 3, 1)],
    ),
    "several outputs": (Tagger, lambda: (dynograd.zeros(4, 7, dtype=dynograd.int64),), [("rnn", "(4, 7, 16), (1, 4, 16), (1, 4, 16)", 1664, 1)]),
    "ragged": (
        Tagger,
        lambda: (words(3, 9, 5),),
        [("", "(3, 3)", 2167, 1), ("words", "(3, j1, 8)", 400, 1), ("drop", "(3, j1, 16)", 0, 1), ("spare", "", 20, 0)],
    ),
    "several inputs": (Two, lambda: (dynograd.ones(5, 2), dynograd.ones(5, 4)), [("", "{sum: (5, 3), parts: (5, 2), (5, 4)}", 30, 1), ("right", "(5, 3)", 15, 1)]),
    "called twice": (Twice, lambda: (dynograd.ones(1, 3),), [("layer", "(1, 3)", 12, 2)]),
    "another class": (Other, lambda: (dynograd.ones(2),), [("", "SimpleNamespace", 0, 1)]),
    "images of different sizes": (
        lambda: nn.Conv2d(3, 4, 3, padding=1),
        lambda: (dynograd.ragged_tensor([dynograd.ones(3, 8, 6), dynograd.ones(3, 5, 7)]),),
        [("", "(2, 4, j2, j3)", 112, 1)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_layers(name):
    make, inputs, expected = CASES[name]
    told = summary(make(), *inputs())
    rows = {row.name: row for row in told.layers}
    for layer, output, parameters, calls in expected:
        row = rows[layer]
        assert (row.output, row.parameters, row.calls) == (output, parameters, calls)
        assert (row.seconds > 0) == (calls > 0)
    assert told.forward == told.layers[0].seconds and (told.backward > 0) == (told.trained > 0)
    assert all(row.seconds <= told.forward for row in told.layers)


def test_memory_is_that_of_results():
    model = nn.Sequential(nn.Linear(8, 16, bias=False), nn.Flatten(0), nn.ReLU())
    told = summary(model, dynograd.ones(4, 5, 8))
    assert [row.bytes for row in told.layers[1:]] == [4 * 5 * 16 * 4, 0, 4 * 5 * 16 * 4]
    assert told.layers[0].bytes == 2 * 4 * 5 * 16 * 4
    assert told.parameter_bytes == 8 * 16 * 4


def test_unused_parameters_and_frozen_ones():
    model = Tagger()
    model.words.requires_grad_(False)
    told = summary(model, words(3, 4))
    assert told.unused == ["spare.weight", "spare.bias"]
    assert (told.parameters, told.trained) == (2167, 1767)
    text = str(told)
    assert "Parameters: 2,167 (8.5 KiB), 1,767 of them trained" in text
    assert "Unused parameters: spare.weight, spare.bias" in text
    assert "Unused" not in str(summary(nn.Linear(1, 1), dynograd.ones(1, 1)))


def test_without_history():
    model = nn.Linear(2, 3)
    with dynograd.no_grad():
        assert summary(model, dynograd.ones(1, 2)).unused == []  # asked with gradients
    detached = nn.Sequential(model)
    detached.register_forward_hook(lambda module, args, output: output.detach())
    told = summary(detached, dynograd.ones(1, 2))
    assert told.unused == ["0.weight", "0.bias"] and told.backward == 0 and "Backward" not in str(told)


def test_the_model_stays_as_it_was():
    model = Two()
    model(dynograd.ones(5, 2), dynograd.ones(5, 4))
    model.left.weight.grad = dynograd.ones(3, 2)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    buffers = dict(model.named_buffers())
    summary(model, dynograd.rand(5, 2), dynograd.rand(5, 4), scale=2)
    assert all(value.equal(before[name]) for name, value in model.state_dict().items())
    assert all(buffer is buffers[name] for name, buffer in model.named_buffers())
    assert model.left.weight.grad.tolist() == [[1, 1]] * 3 and model.right.weight.grad is None
    assert model.training and not model._forward_hooks and not model.left._forward_pre_hooks


def test_random_numbers_are_put_back():
    model, x = nn.Dropout(0.5), dynograd.ones(8)
    state = dynograd.get_rng_state()
    summary(model, x)
    assert dynograd.get_rng_state().equal(state)


def test_table():
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 3)), nn.ReLU())
    told = summary(model, dynograd.ones(4, 2))
    lines = str(told).splitlines()
    assert lines[0].split() == ["Layer", "Output", "Parameters", "Calls", "Time", "Memory"]
    assert [line.split()[0] for line in lines[2:6]] == ["Sequential", "0:", "0:", "1:"]
    assert lines[4].startswith("    0: Linear") and set(lines[1]) == set(lines[6]) == {"-"}
    assert repr(told) == str(told)
    short = str(summary(model, dynograd.ones(4, 2), depth=1)).splitlines()
    assert len(short) == len(lines) - 1 and "Linear" not in str(short)
    html = minidom.parseString(f"<body>{told._repr_html_()}</body>")
    assert len(html.getElementsByTagName("tr")) == 5
    assert [cell.firstChild.data for cell in html.getElementsByTagName("td")][:3] == ["Sequential", "(4, 3)", "9"]


MISTAKES = {
    "no module": (lambda: summary(abs, dynograd.ones(1)), TypeError, "summary: expected a Module, got builtin_function"),
    "no input": (lambda: summary(nn.ReLU()), TypeError, r"summary: expected an input for ReLU, got none.*summary\(model, x\)"),
    "repeats": (lambda: summary(nn.ReLU(), dynograd.ones(1), repeats=0), ValueError, "expected repeats of at least 1, got 0"),
    "depth": (lambda: summary(nn.ReLU(), dynograd.ones(1), depth=0), ValueError, "expected depth of at least 1, got 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name):
    call, kind, words = MISTAKES[name]
    with pytest.raises(kind, match=words):
        call()


def test_an_error_in_forward_takes_the_hooks_off():
    model = nn.Sequential(nn.Linear(2, 3))
    with pytest.raises(dynograd.errors.ShapeError):
        summary(model, dynograd.ones(1, 5))
    assert not model._forward_hooks and not model[0]._forward_pre_hooks
