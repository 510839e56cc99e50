"""LSTM, GRU and RNN against step-by-step NumPy: options, states, packed sequences, gradients; and their cells."""

from __future__ import annotations

import copy
import pickle

import numpy
import pytest

import dynograd as dg
from dynograd import nn
from dynograd.gradcheck import gradcheck, gradgradcheck
from dynograd.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence, pad_packed_sequence

I, H, B, T = 3, 4, 2, 5
KINDS = {"LSTM": 4, "GRU": 3, "RNN": 1, "relu": 1}


def make(kind, *args, **kwargs):
    if kind == "relu":
        kind, kwargs = "RNN", {**kwargs, "nonlinearity": "relu"}
    dg.manual_seed(1)
    return getattr(nn, kind)(*args, **kwargs)


def sigmoid(x):
    return 1 / (1 + numpy.exp(-x))


def np_step(kind, x, h, c, w):
    gates_x, gates_h = w["ih"] @ x + w["bias_ih"], w["hh"] @ h + w["bias_hh"]
    if kind == "LSTM":
        i, f, g, o = numpy.split(gates_x + gates_h, 4)
        c = sigmoid(f) * c + sigmoid(i) * numpy.tanh(g)
        h = sigmoid(o) * numpy.tanh(c)
        return (h if w["hr"] is None else w["hr"] @ h), c
    if kind == "GRU":
        (r, z, n), (hr, hz, hn) = numpy.split(gates_x, 3), numpy.split(gates_h, 3)
        z = sigmoid(z + hz)
        return (1 - z) * numpy.tanh(n + sigmoid(r + hr) * hn) + z * h, c
    total = gates_x + gates_h
    return (numpy.tanh(total) if kind == "RNN" else numpy.maximum(total, 0)), c


def np_layers(layer, kind, x, h0, c0):
    """One sequence (T, I) through all layers; states (layers * directions, size)."""
    directions = 2 if layer.bidirectional else 1
    finals = []
    for depth in range(layer.num_layers):
        outputs = []
        for direction in range(directions):
            end = f"_l{depth}" + "_reverse" * direction
            kept = {name: value.detach().numpy() for name, value in layer.named_parameters()}
            w = {"ih": kept[f"weight_ih{end}"], "hh": kept[f"weight_hh{end}"], "hr": kept.get(f"weight_hr{end}")}
            w |= {name: kept.get(f"{name}{end}", 0.0) for name in ("bias_ih", "bias_hh")}
            h, c = h0[depth * directions + direction], c0[depth * directions + direction]
            steps = x[::-1] if direction else x
            result = []
            for step in steps:
                h, c = np_step(kind, step, h, c, w)
                result.append(h)
            outputs.append(numpy.stack(result[::-1] if direction else result))
            finals.append((h, c))
        x = numpy.concatenate(outputs, 1)
    return x, numpy.stack([h for h, _ in finals]), numpy.stack([c for _, c in finals])


def states_of(layer, batch, rng, dtype=dg.float64):
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    h = dg.from_numpy(rng.normal(size=(count, batch, layer.proj_size or H))).to(dtype)
    c = dg.from_numpy(rng.normal(size=(count, batch, H))).to(dtype)
    return h, c


def given(kind, h, c):
    return (h, c) if kind == "LSTM" else h


def parts(kind, state):
    return state if kind == "LSTM" else (state,)


OPTIONS = [
    {},
    {"num_layers": 2},
    {"bidirectional": True},
    {"num_layers": 2, "bidirectional": True, "bias": False},
    {"num_layers": 3, "batch_first": True, "bidirectional": True},
]
GRID = [pytest.param(kind, options, id=f"{kind}-{','.join(options)}") for kind in KINDS for options in OPTIONS]
GRID += [
    pytest.param("LSTM", {"proj_size": 2}, id="LSTM-projected"),
    pytest.param("LSTM", {"proj_size": 2, "num_layers": 2, "bidirectional": True}, id="LSTM-projected-both"),
]


@pytest.mark.parametrize("dtype", [dg.float32, dg.float64])
@pytest.mark.parametrize(("kind", "options"), GRID)
def test_values(kind, options, dtype):
    layer = make(kind, I, H, **options).to(dtype)
    rng = numpy.random.default_rng(0)
    x = rng.normal(size=(B, T, I))
    h, c = states_of(layer, B, rng, dtype)
    tensor = dg.from_numpy(x).to(dtype)
    output, state = layer(tensor if layer.batch_first else tensor.transpose(0, 1), given(kind, h, c))
    assert output.dtype is dtype
    output = output if layer.batch_first else output.transpose(0, 1)
    tolerance = 1e-5 if dtype is dg.float32 else 1e-12
    for row in range(B):
        expected = np_layers(layer, kind, x[row], h[:, row].double().numpy(), c[:, row].double().numpy())
        numpy.testing.assert_allclose(output[row].detach().numpy(), expected[0], atol=tolerance)
        for element, other in zip(parts(kind, state), expected[1:]):
            numpy.testing.assert_allclose(element[:, row].detach().numpy(), other, atol=tolerance)


@pytest.mark.parametrize("kind", KINDS)
def test_state_is_zero_when_left_out_and_a_single_sequence_needs_no_batch(kind):
    layer = make(kind, I, H, num_layers=2, bidirectional=True, batch_first=True)
    x = dg.randn(1, T, I)
    h, c = dg.zeros(4, 1, H), dg.zeros(4, 1, H)
    expected, state = layer(x, given(kind, h, c))
    assert dg.equal(layer(x)[0], expected)
    single, single_state = layer(x[0], given(kind, h[:, 0], c[:, 0]))
    assert dg.equal(single, expected[0]) and dg.equal(layer(x[0])[0], expected[0])
    for element, other in zip(parts(kind, single_state), parts(kind, state)):
        assert element.shape == (4, H) and dg.equal(element, other[:, 0])


@pytest.mark.parametrize("lengths", [[5, 3, 1], [1, 5, 3], [2, 2, 4]])
@pytest.mark.parametrize(("kind", "options"), [element for element in GRID if "batch_first" not in element.values[1]])
def test_packed_sequences_equal_one_by_one(kind, options, lengths):
    layer = make(kind, I, H, **options).double()
    rng = numpy.random.default_rng(0)
    x = dg.from_numpy(rng.normal(size=(T, 3, I))).requires_grad_()
    h, c = states_of(layer, 3, rng)
    descending = lengths == sorted(lengths, reverse=True)
    packed, state = layer(pack_padded_sequence(x, lengths, enforce_sorted=descending), given(kind, h, c))
    assert isinstance(packed, PackedSequence)
    output, back = pad_packed_sequence(packed, total_length=T)
    assert back.tolist() == lengths
    alone = [
        layer(x[:length, row : row + 1], given(kind, h[:, row : row + 1], c[:, row : row + 1]))
        for row, length in enumerate(lengths)
    ]
    for row, (length, (expected, wanted_state)) in enumerate(zip(lengths, alone)):
        assert dg.allclose(output[:length, row], expected[:, 0], atol=1e-12)
        assert not output[length:, row].any()
        for element, other in zip(parts(kind, state), parts(kind, wanted_state)):
            assert dg.allclose(element[:, row], other[:, 0], atol=1e-12)
    weight = dg.from_numpy(rng.normal(size=tuple(output.shape)))
    total = (output * weight).sum() + parts(kind, state)[-1].sum()
    total_alone = sum(
        (reference[:, 0] * weight[:length, row]).sum()
        for row, (length, (reference, _)) in enumerate(zip(lengths, alone))
    )
    total_alone = total_alone + sum(parts(kind, state)[-1].sum() for _, state in alone)
    leaves = [x, *layer.parameters()]
    for element, other in zip(dg.autograd.grad(total, leaves), dg.autograd.grad(total_alone, leaves)):
        assert dg.allclose(element, other, atol=1e-10)


def test_padding_is_not_read():
    layer = make("LSTM", I, H, bidirectional=True)
    x = dg.randn(2, 4, I)
    x[1, 2:] = float("nan")
    packed, (h, _) = layer(pack_padded_sequence(x, [4, 2], batch_first=True))
    assert bool(packed.data.isfinite().all()) and bool(h.isfinite().all())


@pytest.mark.parametrize(("kind", "options"), [element for element in GRID if element.values[1].get("num_layers") != 3])
def test_gradients(kind, options):
    layer = make(kind, 2, 3, **{**options, "batch_first": False}).double()
    rng = numpy.random.default_rng(0)
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    x = dg.from_numpy(rng.normal(size=(3, 2, 2))).requires_grad_()
    states = [dg.from_numpy(rng.normal(size=(count, 2, layer.proj_size or 3))).requires_grad_()]
    if kind == "LSTM":
        states.append(dg.from_numpy(rng.normal(size=(count, 2, 3))).requires_grad_())

    def run(x, *rest):
        output, state = layer(x, given(kind, *(*rest, None)[:2]))
        return (output, *parts(kind, state))

    def with_weights(*values):
        return run(*values[: 1 + len(states)])

    assert gradcheck(with_weights, (x, *states, *layer.parameters()), atol=1e-7)
    if kind != "relu" and len(list(layer.parameters())) < 9:
        small = layer.num_layers == 1 and not layer.bidirectional
        assert gradgradcheck(with_weights, (x, *states, *layer.parameters()), atol=1e-6, fast_mode=not small)


@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}, {"proj_size": 2}], ids=str)
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_complex_numbers(kind, options):
    if "proj_size" in options and kind != "LSTM":
        options = {"bias": False}
    layer = make(kind, 2, 3, **options).to(dg.complex128)
    rng = numpy.random.default_rng(0)

    def numbers(*shape):
        return rng.normal(size=shape) + 1j * rng.normal(size=shape)

    with dg.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(dg.from_numpy(numbers(*parameter.shape) * 0.3))
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    x, h, c = numbers(4, 2, 2), numbers(count, 2, layer.proj_size or 3), numbers(count, 2, 3)
    tensors = [dg.from_numpy(array).requires_grad_() for array in ((x, h, c) if kind == "LSTM" else (x, h))]

    def run(x, *states):
        output, state = layer(x, given(kind, *(*states, None)[:2]))
        return (output, *parts(kind, state))

    results = run(*tensors)
    for row in range(2):
        expected = np_layers(layer, kind, x[:, row], h[:, row], c[:, row])
        for element, other in zip(results, expected):
            numpy.testing.assert_allclose(element[:, row].detach().numpy(), other, atol=1e-12)
    assert gradcheck(run, tensors, atol=1e-7)


@pytest.mark.parametrize(("kind", "states"), [("LSTMCell", 2), ("GRUCell", 1), ("RNNCell", 1)])
def test_cells_of_complex_numbers(kind, states):
    cell = make(kind, 2, 3).to(dg.complex128)
    tensors = [dg.randn(2, width, dtype=dg.complex128, requires_grad=True) for width in (2, *[3] * states)]
    layer = make(kind.removesuffix("Cell"), 2, 3).to(dg.complex128)
    layer.load_state_dict({f"{name}_l0": value for name, value in cell.state_dict().items()})
    results = parts("LSTM" if states == 2 else "", cell(tensors[0], tuple(tensors[1:]) if states == 2 else tensors[1]))
    before = [tensor[None] for tensor in tensors[1:]]
    _, expected = layer(tensors[0][None], tuple(before) if states == 2 else before[0])
    for element, other in zip(results, parts("LSTM" if states == 2 else "", expected), strict=True):
        numpy.testing.assert_allclose(element.detach().numpy(), other[0].detach().numpy(), atol=1e-12)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_second_order_through_packed_sequences(kind):
    layer = make(kind, 2, 2).double()
    x = dg.randn(3, 2, 2, dtype=dg.float64, requires_grad=True)
    assert gradgradcheck(
        lambda x, *_: layer(pack_padded_sequence(x, [3, 1]))[0].data, (x, *layer.parameters()), atol=1e-6
    )


def test_dropout_acts_between_layers_and_in_training_only():
    layer = make("LSTM", I, H, num_layers=2, dropout=0.5)
    x = dg.randn(T, B, I)
    dg.manual_seed(3)
    element = layer(x)[0]
    assert not dg.equal(layer(x)[0], element)
    dg.manual_seed(3)
    assert dg.equal(layer(x)[0], element)
    layer.eval()
    assert dg.equal(layer(x)[0], layer(x)[0])
    layer.train()
    layer.dropout = 1.0
    first = layer(x)[1][0][0]
    layer.eval()
    assert dg.equal(layer(x)[1][0][0], first), "the first layer's state is before dropout"


@pytest.mark.parametrize("kind", KINDS)
def test_a_cell_is_one_step_of_a_layer(kind):
    layer = make(kind, I, H).double()
    cell_kind = "RNN" if kind == "relu" else kind
    options = {"nonlinearity": "relu"} if kind == "relu" else {}
    cell = getattr(nn, f"{cell_kind}Cell")(I, H, dtype=dg.float64, **options)
    cell.load_state_dict({name.removesuffix("_l0"): value for name, value in layer.state_dict().items()})
    x = dg.randn(T, B, I, dtype=dg.float64)
    state, outputs = None, []
    for step in x:
        state = cell(step, state)
        outputs.append(state[0] if kind == "LSTM" else state)
    assert dg.allclose(dg.stack(outputs), layer(x)[0], atol=1e-12)
    alone = cell(x[0, 0])
    batched = cell(x[0])
    for element, other in zip(parts(kind, alone), parts(kind, batched)):
        assert element.shape == (H,) and dg.allclose(element, other[0])
    again = parts(kind, cell(x[1, 0], alone))[0]
    assert dg.allclose(again, outputs[1][0])
    leaves = [x[:1].detach()[0].requires_grad_(), *cell.parameters()]
    assert gradcheck(lambda x, *_: cell(x), tuple(leaves), atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_a_cell_without_bias(kind):
    cell = getattr(nn, f"{'RNN' if kind == 'relu' else kind}Cell")(I, H, bias=False)
    assert set(cell.state_dict()) == {"weight_ih", "weight_hh"} and repr(cell).endswith("Cell(3, 4, bias=False)")
    assert parts(kind, cell(dg.zeros(B, I)))[0].shape == (B, H)


@pytest.mark.parametrize(("kind", "options"), GRID)
def test_copies_and_names(kind, options):
    layer = make(kind, I, H, **options)
    ends = [
        f"_l{n}{end}" for n in range(layer.num_layers) for end in (["", "_reverse"] if layer.bidirectional else [""])
    ]
    kinds = [
        "weight_ih",
        "weight_hh",
        *(["bias_ih", "bias_hh"] if layer.bias else []),
        *(["weight_hr"] if layer.proj_size else []),
    ]
    assert list(layer.state_dict()) == [name + end for end in ends for name in kinds]
    assert [len(weight) for weight in layer.all_weights] == [len(kinds)] * len(ends)
    bound = 1 / H**0.5
    assert all(float(parameter.detach().abs().max()) <= bound for parameter in layer.parameters())
    x = dg.randn(T, B, I) if not layer.batch_first else dg.randn(B, T, I)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert dg.equal(twin(x)[0], layer(x)[0]) and repr(twin) == repr(layer)
    layer.flatten_parameters()


TEXTS = [
    (lambda: nn.LSTM(3, 4), "LSTM(3, 4)"),
    (lambda: nn.GRU(3, 4, 2, batch_first=True, dropout=0.5, bidirectional=True),
     "GRU(3, 4, num_layers=2, batch_first=True, dropout=0.5, bidirectional=True)"),
    (lambda: nn.LSTM(3, 4, bias=False, proj_size=2), "LSTM(3, 4, proj_size=2, bias=False)"),
    (lambda: nn.RNN(3, 4, 1, "relu"), "RNN(3, 4)"),
    (lambda: nn.RNNCell(3, 4, nonlinearity="relu"), "RNNCell(3, 4, nonlinearity=relu)"),
    (lambda: nn.LSTMCell(3, 4), "LSTMCell(3, 4)"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(TEXTS)))
def test_text(number):
    build, text = TEXTS[number]
    assert repr(build()) == text


@pytest.mark.parametrize("dtype", [dg.float16, dg.bfloat16])
@pytest.mark.parametrize("kind", KINDS)
def test_half_types(kind, dtype):
    layer = make(kind, I, H, bidirectional=True).to(dtype)
    x = dg.randn(T, B, I).to(dtype)
    output, state = layer(x)
    assert output.dtype is dtype and parts(kind, state)[0].dtype is dtype
    expected = copy.deepcopy(layer).float()(x.float())[0]
    assert dg.allclose(output.float(), expected, atol=0.05)


ERRORS = [
    (
        lambda: nn.LSTM(3, 4)(dg.zeros(5, 2, 6)),
        RuntimeError,
        r"LSTM.*Expected 3, got 6.*\(5, 2, 6\).*LSTM\(6, 4\).*batch_first",
    ),
    (lambda: nn.LSTM(3, 4)(dg.zeros(5)), ValueError, "LSTM: Expected input to be 2D or 3D, got 1D"),
    (lambda: nn.GRU(3, 4)(dg.zeros(5, 2, 3), dg.zeros(1, 3, 4)), RuntimeError, r"GRU.*hx.*\(1, 2, 4\).*\(1, 3, 4\)"),
    (
        lambda: nn.GRU(3, 4)(dg.zeros(5, 2, 3), dg.zeros(1, 4)),
        RuntimeError,
        "batched 3-D input, hx should also be 3-D but got 2-D",
    ),
    (
        lambda: nn.GRU(3, 4)(dg.zeros(5, 3), dg.zeros(1, 1, 4)),
        RuntimeError,
        "unbatched 2-D input, hx should also be 2-D but got 3-D",
    ),
    (
        lambda: nn.LSTM(3, 4)(dg.zeros(5, 2, 3), dg.zeros(1, 2, 4)),
        RuntimeError,
        "LSTM: expected hx to be a pair of tensors",
    ),
    (
        lambda: setattr(nn.GRU(3, 4, bias=False), "_flat_weights", [dg.zeros(12, 3)]),
        ValueError,
        r"GRU: _flat_weights takes 2 tensors \(weight_ih_l0, weight_hh_l0\), got 1",
    ),
    (lambda: nn.LSTM(3, 4, proj_size=4), ValueError, r"proj_size.*\[0, hidden_size\).*4"),
    (lambda: nn.RNNBase("GRU", 3, 4, proj_size=2), ValueError, "proj_size.*only supported for LSTM"),
    (lambda: nn.LSTM(3, 4, dropout=1.5), ValueError, r"dropout.*\[0, 1\].*1.5"),
    (lambda: nn.LSTM(3, 0), ValueError, "hidden_size must be positive"),
    (lambda: nn.LSTM(3, 4, 0), ValueError, "num_layers must be positive"),
    (lambda: nn.LSTM(3, 4.0), TypeError, "hidden_size should be of type int, got: float"),
    (lambda: nn.RNN(3, 4, nonlinearity="gelu"), ValueError, "'gelu'.*'tanh' or 'relu'"),
    (lambda: nn.RNNCell(3, 4, nonlinearity="gelu")(dg.zeros(2, 3)), RuntimeError, "gelu.*'tanh' or 'relu'"),
    (
        lambda: nn.GRUCell(3, 4)(dg.zeros(2, 5)),
        RuntimeError,
        r"GRUCell: input has 5 features.*expected 3.*GRUCell\(5, 4\)",
    ),
    (lambda: nn.GRUCell(3, 4)(dg.zeros(2, 1, 3)), ValueError, "1D or 2D, got 3D"),
    (lambda: nn.GRUCell(3, 4)(dg.zeros(2, 3), dg.zeros(1, 4)), RuntimeError, r"\(2, 4\).*\(1, 4\)"),
    (lambda: nn.LSTMCell(3, 4)(dg.zeros(2, 3), dg.zeros(2, 4)), RuntimeError, r"pair \(h, c\)"),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors(number):
    call, kind, words = ERRORS[number]
    with pytest.raises(kind, match=words):
        call()


def test_dropout_on_one_layer_warns():
    with pytest.warns(UserWarning, match="dropout=0.5 and num_layers=1"):
        nn.LSTM(3, 4, dropout=0.5)


@pytest.mark.parametrize(("first", "second"), [([4, 2], [3, 1]), ([3, 1], [4, 2])])
def test_lengths_may_change_from_call_to_call(first, second):
    layer = make("GRU", I, H)
    for lengths in (first, second):
        packed = pack_sequence([dg.randn(length, I) for length in lengths])
        output, _ = layer(packed)
        assert output.data.shape == (sum(lengths), H) and output.batch_sizes.tolist() == packed.batch_sizes.tolist()


def test_a_weight_that_became_an_attribute_is_used():
    layer = make("LSTM", I, H)
    raw = layer.weight_hh_l0
    del layer.weight_hh_l0
    layer.weight_hh_l0 = raw * 0.0
    x = dg.randn(T, B, I)
    output = layer(x)[0]
    layer.weight_hh_l0 = raw
    assert not dg.allclose(layer(x)[0], output)


@pytest.mark.parametrize("kwargs", [{}, {"num_layers": 2, "bidirectional": True}, {"proj_size": 2}])
@pytest.mark.parametrize("kind", KINDS)
def test_weights_assigned_to_flat_weights_are_used(kind, kwargs):
    """Tensors with a history too, as meta-learning puts them there; until a weight is assigned by its own name."""
    if "proj_size" in kwargs and kind != "LSTM":
        kwargs = {}
    layer, other = make(kind, I, H, **kwargs), make(kind, I, H, **kwargs)
    x, scale = dg.randn(T, B, I), dg.tensor(0.5, requires_grad=True)
    for weight in other.parameters():
        weight.data.mul_(0.5)
    layer._flat_weights = [weight * scale for weight in layer.parameters()]
    assert [weight.requires_grad and not weight.is_leaf for weight in layer._flat_weights] == [True] * len(
        other._flat_weights
    )
    output = layer(x)[0]
    dg.testing.assert_close(output, other(x)[0])
    output.sum().backward()
    assert scale.grad != 0
    layer._flat_weights = list(layer.parameters())
    dg.testing.assert_close(layer(x)[0], make(kind, I, H, **kwargs)(x)[0])
    layer._flat_weights = [dg.zeros_like(weight) for weight in layer.parameters()]
    layer.weight_ih_l0 = layer.weight_ih_l0
    assert layer._flat_weights[0] is layer.weight_ih_l0 and layer._flat_weights[1].abs().sum() == 0
