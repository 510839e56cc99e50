"""Recurrent layers over packed and ragged tokens in plans: where tokens lie follows from the lengths of each step."""

from __future__ import annotations

import numpy
import pytest

import dynograd as torch
from dynograd import nn
from dynograd.errors import IndexRangeError
from dynograd.plans.compiling import Compiled
from dynograd.plans.lowering import lower
from tests.plans.lowering_rows import Made, Row, check, run, tensor
from tests.plans.twins import difference, overwritten_between_steps, seen

F, TOKENS, BATCH, INPUTS, WIDTH = "float32", 24, 5, 32, 64
LAYERS = {"lstm_layer": (4, 2), "gru_layer": (3, 1), "rnn_layer": (1, 1)}  # blocks of gates, states


def lengths_of(random, ragged):
    """Lengths that add up to the tokens, some of them 0."""
    cuts = numpy.sort(random.integers(0, TOKENS + 1, BATCH - 1))
    lengths = numpy.diff(cuts, prepend=0, append=TOKENS)
    return torch.tensor(lengths if ragged else numpy.sort(lengths)[::-1].copy())


def layer(name, ragged, reverse=False, bias=True, lengths=None):
    def make(random, dtype):
        gates, states = LAYERS[name]
        shapes = [(TOKENS, INPUTS), *[(BATCH, WIDTH)] * states, (gates * WIDTH, INPUTS), (gates * WIDTH, WIDTH)]
        operands = [tensor(random, dtype, *shape) * 0.3 for shape in shapes]
        biases = [tensor(random, dtype, gates * WIDTH) if bias else None for _ in range(2)]
        rows = lengths_of(random, ragged) if lengths is None else torch.tensor(lengths)
        tensors = [operand.detach().requires_grad_() for operand in operands]
        return (*tensors, *biases, rows, *(["tanh"] if name == "rnn_layer" else []), reverse, ragged)

    return make


CASES = [
    pytest.param(name, ragged, reverse, bias, id=f"{name}-{'ragged' if ragged else 'packed'}{'-reverse' * reverse}{'' if bias else '-no bias'}")
    for name in LAYERS
    for ragged in (False, True)
    for reverse, bias in ((False, True), (True, True), (False, False))
]  # fmt: skip
FIXED = {False: [9, 7, 7, 1, 0], True: [7, 0, 9, 1, 7]}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name, ragged, reverse, bias", CASES)
def test_other_lengths(name, ragged, reverse, bias, dtype):
    """Two steps have other lengths."""
    check(Row(name, layer(name, ragged, reverse, bias)), dtype, "op")


@pytest.mark.parametrize("name, ragged, reverse, bias", CASES)
def test_rules(name, ragged, reverse, bias):
    check(Row(name, layer(name, ragged, reverse, bias, FIXED[ragged])), F, "rule")


@pytest.mark.parametrize("ragged, wrong", [(False, [9, 7, 8, 0, 0]), (False, [9, 7, 7, 1, 1]), (True, [30, 0, -6, 0, 0]), (True, [1, 2, 3, 4, 5]), (False, [10**9, 7, 7, 1, 0])])  # fmt: skip
def test_lengths_that_do_not_fit_raise_what_eager_raises(ragged, wrong):
    created = Made(Row("lstm_layer", layer("lstm_layer", ragged, lengths=FIXED[ragged])), F, 1)
    lowered = lower(created.call)
    run(lowered)
    created.call.inputs[-1][...] = wrong
    with pytest.raises(IndexRangeError, match="lengths"):
        run(lowered)
    created.call.inputs[-1][...] = FIXED[ragged]
    run(lowered)


def test_padded_tokens_stay_in_python():
    def make(random, dtype):
        _, h, *rest = layer("gru_layer", False, lengths=[6, 5, 4, 3, 2])(random, dtype)
        return (tensor(random, dtype, 6, BATCH, INPUTS), h, *rest)

    for kind in ("op", "rule"):
        assert lower(Made(Row("gru_layer", make), F, 1, kind).call) is None


# --- steps --------------------------------------------------------------------------------------------------------------------


class Classifier(nn.Module):
    def __init__(self, kind, form, dropout=0.0):
        super().__init__()
        self.form = form
        self.layer = kind(6, 8, num_layers=2, batch_first=True, bidirectional=True, dropout=dropout)
        self.out = nn.Linear(16, 3)

    def forward(self, x, lengths):
        if self.form == "ragged":
            rows = torch.ragged([x[row, :length] for row, length in enumerate(lengths.tolist())])
            return self.out(self.layer(rows)[0].sum(1))
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        output, state = self.layer(packed)
        if self.form == "state":
            return self.out(torch.cat([*(state[0] if isinstance(state, tuple) else state)[-2:]], 1))
        padded, counts = nn.utils.rnn.pad_packed_sequence(output, batch_first=True)
        return self.out(padded.sum(1) / counts[:, None])


def training(kind, form, compiled, steps, dropout=0.0):
    """Lengths with one sum come again in another order; each fourth step has another sum."""
    torch.manual_seed(0)
    model = Classifier(kind, form, dropout)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def step(x, lengths, labels):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x, lengths), labels)
        loss.backward()
        optimizer.step()
        return loss

    step = compiled(step)
    random = numpy.random.default_rng(0)
    results = []
    for number in range(steps):
        lengths = random.permutation([7, 5, 2, 1 + number % 4 // 3])
        x = torch.from_numpy(random.standard_normal((4, 7, 6)).astype("float32"))
        labels = torch.from_numpy(random.integers(0, 3, 4))
        results.append(seen([step(x, torch.from_numpy(lengths), labels), [*model.parameters()]]))
    return results


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("form", ["state", "padded"])
def test_steps_with_packed_layers_are_walked(kind, form):
    created = []

    def compiled(function):
        created.append(Compiled(function))
        return created[-1]

    expected = training(kind, form, lambda function: function, 16)
    with overwritten_between_steps():
        results = training(kind, form, compiled, 16)
    for step, (element, other) in enumerate(zip(expected, results)):
        differing = difference(element, other, 2e-4)
        assert differing is None, f"step {step}: {differing}\n{created[0].report()}"
    report = created[0].report()
    assert created[0].walked >= 12 and len(report.ways) == 2, report
    assert not [call for way in report.ways for call in way.in_python], report


def gradients_in_the_end(kind, ragged, compiled):
    """Of calls that are all differentiated when the last one is over: each has its own lengths, and its own sum of squares."""
    torch.manual_seed(0)
    layer = kind(6, 8)

    def run(tokens, lengths):
        if ragged:
            return layer(torch.ragged_tensor([*tokens.split(lengths.tolist())]))[0].values
        return layer(nn.utils.rnn.PackedSequence(tokens, lengths))[0].data

    run, gradients = compiled(run), []
    random = numpy.random.default_rng(0)
    lengths = [[4, 4, 2, 2], [4, 3, 3, 2], [3, 3, 3, 3], [4, 4, 2, 2]]
    batches = [torch.from_numpy(random.standard_normal((12, 6)).astype("float32")) for _ in lengths]
    losses = [run(tokens, torch.tensor(rows)).square().sum() for tokens, rows in zip(batches, lengths)]
    for loss in losses:
        layer.zero_grad()
        loss.backward()
        gradients.append(seen([*[parameter.grad for parameter in layer.parameters()]]))
    return gradients


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recorded_calls_that_are_differentiated_later_have_their_own_lengths(kind, ragged, exact):
    """Kernels of the plan find out where tokens lie in memory of their own, not in that of the call that was recorded."""
    expected = gradients_in_the_end(kind, ragged, lambda function: function)
    results = gradients_in_the_end(kind, ragged, lambda function: Compiled(function, exact=exact))
    for call, (element, other) in enumerate(zip(expected, results)):
        differing = difference(element, other, 2e-4)
        assert differing is None, f"call {call}: {differing}"


def new_totals(form, compiled, steps):
    """Steps whose lengths, and sums of lengths, are nearly always others."""
    torch.manual_seed(0)
    layer, out = nn.LSTM(6, 8, batch_first=True), nn.Linear(8, 3)
    parameters = [*layer.parameters(), *out.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=1e-2)

    def step(given, labels):
        optimizer.zero_grad()
        packed = nn.utils.rnn.pack_sequence(given, enforce_sorted=False) if form == "rows" else given
        output, (state, _) = layer(packed)
        loss = nn.functional.cross_entropy(out(state[-1]), labels)
        if form == "packed":
            loss = loss + output.data.square().mean()
        loss.backward()
        optimizer.step()
        return loss

    step = compiled(step)
    random = numpy.random.default_rng(0)
    results = []
    for _ in range(steps):
        rows = [
            torch.from_numpy(random.standard_normal((length, 6)).astype("float32"))
            for length in random.integers(2, 12, 8)
        ]
        argument = nn.utils.rnn.pack_sequence(rows, enforce_sorted=False) if form == "packed" else rows
        results.append(seen([step(argument, torch.from_numpy(random.integers(0, 3, 8))), parameters]))
    return results


@pytest.mark.parametrize("form", ["packed", "rows"])
def test_new_sums_of_lengths_are_walked_by_formula(form):
    """Each row of a list has a size, which is none of what ops get: the packed tokens and the steps have."""
    created = []

    def compiled(function):
        created.append(Compiled(function, dynamic=True))
        return created[-1]

    expected = new_totals(form, lambda function: function, 40)
    with overwritten_between_steps():
        results = new_totals(form, compiled, 40)
    for step, (element, other) in enumerate(zip(expected, results)):
        differing = difference(element, other, 2e-4)
        assert differing is None, f"step {step}: {differing}\n{created[0].report()}"
    report = created[0].report()
    assert created[0].walked >= 25 and len(report.ways) <= 15, report
    assert not [call for way in report.ways for call in way.in_python], report


def test_batches_that_the_program_holds_go_one_way():
    """What stands at the place of a tensor that was another one in each step is one, also where it came before."""
    model = nn.Linear(6, 3)
    batches = [torch.randn(4, 6, requires_grad=True) for _ in range(4)]
    position = [0]

    def step():
        x = batches[position[0] % 4]
        x.grad = None
        model.zero_grad()
        loss = model(x * 2).index_select(0, torch.arange(1 + position[0] % 4)).square().sum()
        loss.backward()
        return loss

    compiled = Compiled(step, always=True)
    for number in range(24):
        position[0] = number
        expected, results = [seen([run(), batches[number % 4].grad]) for run in (step, compiled)]
        assert difference(expected, results, 1e-5) is None
    assert compiled.walked >= 18 and len(compiled.report().ways) <= 5, compiled.report()
