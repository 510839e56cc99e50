"""LSTM, GRU, RNN and their cells against PyTorch's with the same weights: values, gradients, packed sequences, text."""

import itertools

import numpy
import pytest
import torch

import dynograd
from dynograd import nn

I, H, T, B = 3, 4, 6, 3
KINDS = [("LSTM", {}), ("GRU", {}), ("RNN", {}), ("RNN", {"nonlinearity": "relu"}), ("LSTM", {"proj_size": 2})]
OPTIONS = [
    dict(zip(("num_layers", "bidirectional", "bias", "batch_first"), values))
    for values in itertools.product([1, 2], [False, True], [True, False], [False, True])
]
GRID = [(kind, {**extra, **options}) for (kind, extra), options in itertools.product(KINDS, OPTIONS)]
IDS = [f"{kind}-{'-'.join(f'{name}={value}' for name, value in options.items())}" for kind, options in GRID]
LENGTHS = [None, [6, 4, 1], [2, 6, 5]]


def both(kind, options):
    ours = getattr(nn, kind)(I, H, **options).double()
    theirs = getattr(torch.nn, kind)(I, H, **options).double()
    theirs.load_state_dict({name: torch.from_numpy(value.numpy().copy()) for name, value in ours.state_dict().items()})
    return ours, theirs


def run(library, layer, options, kind, lengths, with_state):
    rng = numpy.random.default_rng(0)
    count = options["num_layers"] * (2 if options["bidirectional"] else 1)
    x = library.from_numpy(rng.normal(size=(B, T, I))).requires_grad_()
    h = library.from_numpy(rng.normal(size=(count, B, options.get("proj_size", 0) or H))).requires_grad_()
    c = library.from_numpy(rng.normal(size=(count, B, H))).requires_grad_()
    state = (((h, c) if kind == "LSTM" else h),) if with_state else ()
    first = options["batch_first"]
    argument = x if first else x.transpose(0, 1)
    tools = library.nn.utils.rnn
    if lengths is not None:
        argument = tools.pack_padded_sequence(argument, lengths, first, enforce_sorted=lengths[0] == max(lengths))
    output, final = layer(argument, *state)
    values = {}
    if lengths is not None:
        values |= {
            name: getattr(output, name) for name in ("data", "batch_sizes", "sorted_indices", "unsorted_indices")
        }
        output, values["lengths"] = tools.pad_packed_sequence(output, first)
    finals = final if kind == "LSTM" else (final,)
    values |= {"output": output, **{f"final {place}": element for place, element in enumerate(finals)}}
    total = sum(
        (element * library.from_numpy(numpy.cos(numpy.arange(element.numel())).reshape(tuple(element.shape)))).sum()
        for element in (output, *finals)
    )
    total.backward()
    leaves = {"x": x, **({"h": h} if with_state else {}), **({"c": c} if with_state and kind == "LSTM" else {})}
    values |= {f"gradient of {name}": element.grad for name, element in (*leaves.items(), *layer.named_parameters())}
    return {name: None if element is None else element.detach().numpy() for name, element in values.items()}


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize(("kind", "options"), GRID, ids=IDS)
def test_values_and_gradients(kind, options, lengths):
    ours, theirs = both(kind, options)
    assert repr(ours) == repr(theirs)
    assert {name: value.shape for name, value in ours.state_dict().items()} == {
        name: tuple(value.shape) for name, value in theirs.state_dict().items()
    }
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for with_state in (False, True):
        results = run(dynograd, ours, options, kind, lengths, with_state)
        expected = run(torch, theirs, options, kind, lengths, with_state)
        assert list(results) == list(expected)
        for name, element in results.items():
            if element is None or expected[name] is None:
                assert element is expected[name]
                continue
            assert element.shape == expected[name].shape
            numpy.testing.assert_allclose(element, expected[name], atol=1e-10, err_msg=name)


@pytest.mark.parametrize(
    ("kind", "options"), [("LSTM", {}), ("GRU", {}), ("RNN", {}), ("RNN", {"nonlinearity": "relu"})]
)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(I,), (B, I)])
def test_cells(kind, options, bias, shape):
    ours = getattr(nn, f"{kind}Cell")(I, H, bias=bias, **options).double()
    theirs = getattr(torch.nn, f"{kind}Cell")(I, H, bias=bias, **options).double()
    theirs.load_state_dict({name: torch.from_numpy(value.numpy().copy()) for name, value in ours.state_dict().items()})
    assert repr(ours) == repr(theirs) and list(ours.state_dict()) == list(theirs.state_dict())
    x = numpy.random.default_rng(0).normal(size=shape)
    results = []
    for library, cell in ((dynograd, ours), (torch, theirs)):
        argument = library.from_numpy(x).requires_grad_()
        state = cell(argument, cell(argument))
        parts = state if kind == "LSTM" else (state,)
        sum(part.sin().sum() for part in parts).backward()
        results.append(
            [part.detach().numpy() for part in (*parts, argument.grad, *[value.grad for value in cell.parameters()])]
        )
    for element, other in zip(*results, strict=True):
        numpy.testing.assert_allclose(element, other, atol=1e-10)


@pytest.mark.parametrize("padding_side", ["left", "right"])
@pytest.mark.parametrize("batch_first", [True, False])
def test_pad_sequence(batch_first, padding_side):
    arrays = [numpy.random.default_rng(0).normal(size=(length, 2)) for length in (2, 4, 1)]
    result = [
        library.nn.utils.rnn.pad_sequence(
            [library.from_numpy(array) for array in arrays], batch_first, -3.0, padding_side
        ).numpy()
        for library in (dynograd, torch)
    ]
    numpy.testing.assert_array_equal(*result)


def test_packed_sequences_print_alike():
    texts = []
    for library in (dynograd, torch):
        rows = [library.tensor([1.0, 2.0]), library.tensor([3.0])]
        packed = library.nn.utils.rnn.pack_sequence(rows, enforce_sorted=False)
        texts.append(repr(packed).replace("\n", "").replace(" ", ""))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_positional_arguments_come_in_the_same_order(name):
    args = (3, 4, 2, "relu", False, True, 0.3, True) if name == "RNN" else (3, 4, 2, False, True, 0.3, True)
    assert repr(getattr(nn, name)(*args)) == repr(getattr(torch.nn, name)(*args))
