"""Recurrent layers and cells: the rows of `ops/recurrent/recurrences.py` and of `ops/recurrent/cells.py`, which share their references."""

import numpy
import pytest

import dynograd
from dynograd.autograd import grad
from tests.ops.harness import Row, error, generate

T, B, I, H = 4, 3, 2, 3


def sigmoid(x):
    return 1 / (1 + numpy.exp(-x))


def np_step(kind, x, states, w_ih, w_hh, b_ih, b_hh, nonlinearity="tanh"):
    inner = x @ w_ih.T + (0 if b_ih is None else b_ih)
    outer = states[0] @ w_hh.T + (0 if b_hh is None else b_hh)
    if kind == "lstm":
        i, f, g, o = numpy.split(inner + outer, 4, -1)
        c = sigmoid(f) * states[1] + sigmoid(i) * numpy.tanh(g)
        return sigmoid(o) * numpy.tanh(c), c
    if kind == "gru":
        (x_r, x_z, x_n), (h_r, h_z, h_n) = numpy.split(inner, 3, -1), numpy.split(outer, 3, -1)
        z = sigmoid(x_z + h_z)
        n = numpy.tanh(x_n + sigmoid(x_r + h_r) * h_n)
        return ((1 - z) * n + z * states[0],)
    return (numpy.tanh(inner + outer) if nonlinearity == "tanh" else numpy.maximum(inner + outer, 0),)


def reference(kind):
    """Row by row of the batch and step by step."""
    count = 2 if kind == "lstm" else 1

    def layer(input, *rest, nonlinearity="tanh", reverse=False):
        states, (w_ih, w_hh, b_ih, b_hh, lengths) = rest[:count], rest[count:]
        steps, batch, _ = input.shape
        output = numpy.zeros((steps, batch, w_hh.shape[1]))
        finals = [state.copy() for state in states]
        for row in range(batch):
            length = steps if lengths is None else lengths[row]
            now = [state[row] for state in states]
            for step in reversed(range(length)) if reverse else range(length):
                now = np_step(kind, input[step, row], now, w_ih, w_hh, b_ih, b_hh, nonlinearity)
                output[step, row] = now[0]
            for final, state in zip(finals, now, strict=True):
                final[row] = state
        return (output, *finals)

    return layer


def packed_reference(kind):
    """The same of packed tokens: padded, computed, and packed again."""

    def layer(input, *rest, **options):
        real = numpy.arange(max(rest[-1]))[:, None] < rest[-1]
        padded = numpy.zeros((*real.shape, input.shape[1]))
        padded[real] = input
        output, *finals = reference(kind)(padded, *rest, **options)
        return (output[real], *finals)

    return layer


def packed_arguments(kind, lengths):
    def draw(rng):
        padded, *rest = arguments(kind, True, lengths)(rng)
        return [padded[numpy.arange(T)[:, None] < rest[-1]], *rest]

    return draw


def ragged_reference(kind):
    """The same of tokens of one sequence behind those of another: padded, computed, and cut again."""

    def layer(input, *rest, ragged=True, **options):
        real = numpy.arange(max(rest[-1]))[None, :] < rest[-1][:, None]
        padded = numpy.zeros((*real.shape, input.shape[1]))
        padded[real] = input
        output, *finals = reference(kind)(padded.swapaxes(0, 1), *rest, **options)
        return (output.swapaxes(0, 1)[real], *finals)

    return layer


def ragged_arguments(kind, lengths):
    def draw(rng):
        padded, *rest = arguments(kind, True, lengths)(rng)
        return [padded.swapaxes(0, 1)[numpy.arange(T)[None, :] < rest[-1][:, None]], *rest]

    return draw


def np_cell(kind, nonlinearity="tanh"):
    def cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
        states = hx if kind == "lstm" else (hx,)
        result = np_step(kind, input, states, w_ih, w_hh, b_ih, b_hh, nonlinearity)
        return result if kind == "lstm" else result[0]

    return cell


def arguments(kind, bias=True, lengths=None, single=False):
    blocks = {"lstm": 4, "gru": 3, "rnn": 1}[kind]

    def draw(rng):
        states = [rng.normal(size=(B, H)) for _ in range(2 if kind == "lstm" else 1)]
        weights = [rng.normal(size=(blocks * H, size)) / 2 for size in (I, H)]
        biases = [rng.normal(size=blocks * H) / 2 for _ in range(2)] if bias else [None, None]
        if single:
            return [rng.normal(size=(B, I)), tuple(states) if kind == "lstm" else states[0], *weights, *biases]
        argument = None if lengths is None else numpy.array(lengths)
        return [rng.normal(size=(T, B, I)), *states, *weights, *biases, argument]

    return draw


zeros = dynograd.zeros
x, h = zeros(T, B, I), zeros(B, H)


def weights_of(blocks):
    return zeros(blocks * H, I), zeros(blocks * H, H)


def layer_errors(name, blocks, states):
    w_ih, w_hh = weights_of(blocks)
    hs = (h,) * states
    return [
        error(lambda op: op(zeros(B, I), *hs, w_ih, w_hh), RuntimeError, name, "(T, B, I)", "(3, 2)"),
        error(lambda op: op(zeros(T, B, 5), *hs, w_ih, w_hh), RuntimeError, name, "weight_ih", f"({blocks * H}, 5)"),
        error(lambda op: op(x, zeros(1, H), *hs[1:], w_ih, w_hh), RuntimeError, name, "h_0", "(1, 3)", "(3, 3)"),
        error(lambda op: op(x, *hs, w_ih, w_hh, zeros(2)), RuntimeError, name, "bias_ih", "(2,)"),
        error(lambda op: op(x, *hs, w_ih.double(), w_hh), RuntimeError, name, "weight_ih", "float64", "float32"),
        error(
            lambda op: op(x, *hs, w_ih, w_hh, None, None, dynograd.tensor([1, 2])),
            RuntimeError,
            name,
            "lengths",
            "(2,)",
        ),
        error(
            lambda op: op(x, *hs, w_ih, w_hh, None, None, dynograd.tensor([1, 9, 2])),
            IndexError,
            name,
            "length 9",
            "position 1",
        ),
    ]


def packed_errors(name, blocks, states):
    """Lengths that packed tokens cannot have."""
    argument = zeros(5, I), *(h,) * states, *weights_of(blocks), None, None

    def refused(lengths, *words):
        return error(lambda op: op(*argument, dynograd.tensor(lengths)), IndexError, name, *words)

    return [
        refused([2, 3, 0], "longest first", "[2, 3, 0]"),
        refused([3, 3, -1], "0 or more", "-1"),
        refused([3, 2, 1], "add up to 6", "5 tokens"),
    ]


def ragged_errors(name, blocks, states):
    weights = *(h,) * states, *weights_of(blocks), None, None
    return [
        error(
            lambda op: op(zeros(5, I), *weights, dynograd.tensor([3, -1, 3]), ragged=True),
            IndexError,
            name,
            "-1 in row 1",
        ),
        error(
            lambda op: op(zeros(5, I), *weights, dynograd.tensor([1, 3, 2]), ragged=True),
            IndexError,
            name,
            "add up to 6",
            "5 tokens",
        ),
        error(
            lambda op: op(zeros(5, 2, I), *weights, dynograd.tensor([1, 3, 2]), ragged=True),
            RuntimeError,
            name,
            "ragged=True",
            "(5, 2, 2)",
        ),
    ]


ROWS = [
    *[
        Row(
            f"{kind}_layer",
            reference(kind),
            args=arguments(kind, bias, lengths),
            kwargs={"reverse": reverse},
            id=f"{'bias' if bias else 'plain'}-{lengths}-{'reverse' if reverse else 'forward'}",
            tolerance=3,
            second=second,
            jvp=second,
            errors=layer_errors(f"{kind}_layer", {"lstm": 4, "gru": 3, "rnn": 1}[kind], 2 if kind == "lstm" else 1)
            if bias
            else (),
        )
        for kind in ("lstm", "gru", "rnn")
        for bias, lengths, reverse, second in (
            (True, (2, 4, 1), False, True),
            (False, None, True, True),
            (False, (0, 4, 3), True, False),
        )
    ],
    *[
        Row(
            f"{kind}_layer",
            packed_reference(kind),
            args=packed_arguments(kind, lengths),
            kwargs={"reverse": reverse},
            id=f"packed-{lengths}-{'reverse' if reverse else 'forward'}",
            tolerance=3,
            errors=packed_errors(f"{kind}_layer", blocks, 2 if kind == "lstm" else 1),
        )
        for kind, blocks in (("lstm", 4), ("gru", 3), ("rnn", 1))
        for lengths, reverse in (((4, 2, 1), False), ((3, 3, 0), True))
    ],
    *[
        Row(
            f"{kind}_layer",
            ragged_reference(kind),
            args=ragged_arguments(kind, lengths),
            kwargs={"reverse": reverse, "ragged": True},
            id=f"ragged-{lengths}-{'reverse' if reverse else 'forward'}",
            tolerance=3,
            errors=ragged_errors(f"{kind}_layer", blocks, 2 if kind == "lstm" else 1),
        )
        for kind, blocks in (("lstm", 4), ("gru", 3), ("rnn", 1))
        for lengths, reverse in (((1, 4, 2), False), ((0, 2, 3), True))
    ],
    Row(
        "rnn_layer",
        reference("rnn"),
        args=arguments("rnn", True, (2, 4, 1)),
        kwargs={"nonlinearity": "relu"},
        id="relu",
        errors=[error(lambda op: op(x, h, *weights_of(1), nonlinearity="gelu"), ValueError, "nonlinearity", "gelu")],
    ),
    Row("lstm_cell", np_cell("lstm"), args=arguments("lstm", single=True), tolerance=3),
    Row(
        "gru_cell",
        np_cell("gru"),
        args=arguments("gru", single=True),
        tolerance=3,
        covers=["gru_step"],
        errors=[error(lambda op: op(x[0], h[:2], *weights_of(3)), RuntimeError, "gru_cell", "(3, 3)", "got (2, 3)")],
    ),
    Row(
        "rnn_tanh_cell",
        np_cell("rnn"),
        args=arguments("rnn", single=True),
        tolerance=3,
        errors=[error(lambda op: op(x[0], h, *weights_of(2)), RuntimeError, "rnn_tanh_cell", "3 rows", "(6, 2)")],
    ),
    Row("rnn_relu_cell", np_cell("rnn", "relu"), args=arguments("rnn", bias=False, single=True), tolerance=3),
    Row(
        "lstm_cell",
        np_cell("lstm"),
        args=arguments("lstm", bias=False, single=True),
        tolerance=3,
        id="plain",
        covers=["lstm_step"],
        errors=[
            error(lambda op: op(zeros(I), (h, h), *weights_of(4)), RuntimeError, "lstm_cell", "(B, I)", "(2,)"),
            error(lambda op: op(x[0], (h, h[:1]), *weights_of(4)), RuntimeError, "lstm_cell", "(3, 3)", "got (1, 3)"),
            error(lambda op: op(x[0], (h, h), *weights_of(3)), RuntimeError, "12 rows", "(9, 2)", "(9, 3)"),
        ],
    ),
]
test_rows = generate(ROWS)


def test_what_lies_beyond_a_row_is_not_read():
    arrays = arguments("lstm", True, (2, 4, 1))(numpy.random.default_rng(0))
    expected = dynograd.lstm_layer(*map(dynograd.tensor, arrays))
    arrays[0][2:, 0] = numpy.nan
    tensors = [dynograd.tensor(array) for array in arrays]
    tensors[0].requires_grad_()
    results = dynograd.lstm_layer(*tensors)
    for element, other in zip(results, expected, strict=True):
        assert element.tolist() == other.tolist()
    for create_graph in (False, True):
        (g,) = grad(results.output.sum() + results.c_n.sum(), tensors[0], create_graph=create_graph, retain_graph=True)
        assert numpy.isfinite(g.detach().numpy()).all()
        assert not g[2:, 0].detach().numpy().any()


def test_cells_walked_by_hand_equal_the_layer():
    rng = numpy.random.default_rng(1)
    x, h, c, *weights, _ = [None if element is None else dynograd.tensor(element) for element in arguments("lstm")(rng)]
    output, h_n, c_n = dynograd.lstm_layer(x, h, c, *weights)
    for step in range(T):
        h, c = dynograd.lstm_cell(x[step], (h, c), *weights)
        numpy.testing.assert_allclose(output[step].numpy(), h.numpy(), rtol=1e-12)
    numpy.testing.assert_allclose(h_n.numpy(), h.numpy(), rtol=1e-12)
    numpy.testing.assert_allclose(c_n.numpy(), c.numpy(), rtol=1e-12)


def test_backward_may_run_twice_and_outputs_may_be_overwritten():
    rng = numpy.random.default_rng(1)
    x, h, *weights, _ = [None if element is None else dynograd.tensor(element) for element in arguments("gru")(rng)]
    weights[0].requires_grad_()
    output = dynograd.gru_layer(x, h, *weights).output
    loss = output.sum()
    (first,) = grad(loss, weights[0], retain_graph=True)
    output.detach().zero_()
    (second,) = grad(loss, weights[0])
    assert first.tolist() == pytest.approx(second.numpy())
