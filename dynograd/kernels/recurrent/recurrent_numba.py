"""Whole sequences of LSTM, GRU and Elman layers, forward and backward: one compiled call runs all time steps.

Rows (sequences) are independent through time, so a kernel's items are groups of rows, and threads meet only at the end. Group g
of `groups` holds the rows g, g + groups, ...: sequences sorted by length are dealt out evenly. In step t the first `sizes[t]` rows
work; the token of row r lies at `starts[t] + firsts[r]` in every (tokens, n) array. States (B, H) are changed in place from the
initial to the final ones.

The loops over groups, steps and rows are one for all cells, and so are their arguments: what a cell has not is an array without rows.
`kept_hidden` receives the states that each token started from; `kept` the cell states (LSTM) or the recurrent parts of n (GRU).
"""

import numpy as np

from dynograd.kernels.build.compiling_numba import chunked, compiled
from dynograd.kernels.formula.math_numba import sigmoid, tanh
from dynograd.kernels.recurrent.recurrent_products_numba import columns_product, product


def _forward(name, cell_of_token):
    def steps(
        gates, weight, bias, hidden, cell, kept_hidden, kept, y, sizes, starts, firsts, reverse, groups, start, stop
    ):  # fmt: skip
        """Turns the projected inputs in `gates` (tokens, n H) into activated gates."""
        count, (batch, width), size = _steps_of(sizes), hidden.shape, gates.itemsize
        like = gates.dtype.type(0)
        columns = weight.shape[0] * weight.shape[2]
        most = _rows_of(batch, 0, groups)
        parts, own = np.empty((most, columns), gates.dtype), np.empty((most, width), gates.dtype)
        own_cell = np.empty_like(own)
        for group in range(start, stop):
            _take_rows(hidden, own, group, groups)
            _take_rows(cell, own_cell, group, groups)
            for place in range(count):
                step = count - 1 - place if reverse else place
                rows = _rows_of(sizes[step], group, groups)
                product(like, own.ctypes.data, width * size, weight, parts.ctypes.data, columns * size, rows, False)
                for row in range(rows):
                    token = starts[step] + firsts[group + row * groups]
                    cell_of_token(token, gates, parts[row], bias, own[row], own_cell[row], kept_hidden, kept, y)
            _give_rows(own, hidden, group, groups, width)
            _give_rows(own_cell, cell, group, groups, width)

    return chunked(steps, noalias=True, key=name)


def _backward(name, cell_of_token, adds):
    def steps_backward(
        gates, weight, kept_hidden, kept, gy, gates_g, rest_g, hidden_g, cell_g, sizes, starts, firsts, reverse, groups, start, stop
    ):  # fmt: skip
        """Writes gradients before the activations to `gates_g`, and to `rest_g` (GRU) those of the recurrent part of n.

        `gy` (tokens, H) may have no rows (zero). The product with the weights takes the place of a row's gradient, or is added to it.
        """
        count, (batch, width), size = _steps_of(sizes), hidden_g.shape, gates.itemsize
        like = gates.dtype.type(0)
        columns, wide = weight.shape[0] * weight.shape[2], gates.shape[1]
        most = _rows_of(batch, 0, groups)
        toward = np.zeros((most, columns), gates.dtype)
        block = np.empty((most, wide), gates.dtype)
        nothing = np.zeros(width, gates.dtype)
        own_cell = np.empty((most, width), gates.dtype)
        for group in range(start, stop):
            _take_rows(hidden_g, toward, group, groups)
            _take_rows(cell_g, own_cell, group, groups)
            for place in range(count):
                step = place if reverse else count - 1 - place
                rows = _rows_of(sizes[step], group, groups)
                for row in range(rows):
                    token = starts[step] + firsts[group + row * groups]
                    outer = gy[token] if gy.shape[0] else nothing
                    cell_of_token(
                        token, gates, kept_hidden, kept, outer, toward[row], own_cell[row], block[row], gates_g, rest_g
                    )
                product(like, block.ctypes.data, wide * size, weight, toward.ctypes.data, columns * size, rows, adds)
            _give_rows(toward, hidden_g, group, groups, width)
            _give_rows(own_cell, cell_g, group, groups, width)

    return chunked(steps_backward, noalias=True, key=name)


# --- cells -------------------------------------------------------------------------------------------------------------------
#
# Of one token. The inner functions have a parameter for each gate: those do not overlap, which slices of a row do not say.


@compiled(noalias=True, inline=True)
def _lstm(token, gates, part, bias, hidden, cell, kept_hidden, kept, y):
    """Gates i, f, g, o."""
    gate, width = gates[token], hidden.size
    _squash(gate[: 2 * width], part, bias)
    _bend(gate[2 * width : 3 * width], part[2 * width :], bias[2 * width :])
    _squash(gate[3 * width :], part[3 * width :], bias[3 * width :])
    into, keep, update, out = gate[:width], gate[width : 2 * width], gate[2 * width : 3 * width], gate[3 * width :]
    _lstm_row(into, keep, update, out, hidden, cell, kept_hidden[token], kept[token], y[token])


@compiled(noalias=True, inline=True)
def _lstm_row(into, keep, update, out, hidden, cell, kept_hidden, kept_cell, y):
    for j in range(hidden.size):
        before = cell[j]
        now = keep[j] * before + into[j] * update[j]
        shown = out[j] * tanh(now)
        kept_hidden[j] = hidden[j]
        kept_cell[j] = before
        cell[j] = now
        hidden[j] = shown
        y[j] = shown


@compiled(noalias=True, inline=True)
def _lstm_backward(token, gates, kept_hidden, kept, outer, toward, cell_g, block, gates_g, rest_g):
    gate, width = gates[token], cell_g.size
    _lstm_row_backward(
        gate[:width], gate[width : 2 * width], gate[2 * width : 3 * width], gate[3 * width :], kept[token], outer, toward, cell_g,
        block[:width], block[width : 2 * width], block[2 * width : 3 * width], block[3 * width :],
    )  # fmt: skip
    _copy(block, gates_g[token])


@compiled(noalias=True, inline=True)
def _lstm_row_backward(into, keep, update, out, before, outer, toward, cell_g, into_g, keep_g, update_g, out_g):
    for j in range(cell_g.size):
        squashed = tanh(keep[j] * before[j] + into[j] * update[j])
        dh = toward[j] + outer[j]
        dc = cell_g[j] + dh * out[j] * (1 - squashed * squashed)
        into_g[j] = dc * update[j] * into[j] * (1 - into[j])
        keep_g[j] = dc * before[j] * keep[j] * (1 - keep[j])
        update_g[j] = dc * into[j] * (1 - update[j] * update[j])
        out_g[j] = dh * squashed * out[j] * (1 - out[j])
        cell_g[j] = dc * keep[j]


@compiled(noalias=True, inline=True)
def _gru(token, gates, part, bias, hidden, cell, kept_hidden, kept, y):
    """Gates r, z, n. The bias of the recurrent part of n, which r acts on, stands behind those of the gates."""
    gate, width = gates[token], hidden.size
    _squash(gate[: 2 * width], part, bias)
    reset, update, new = gate[:width], gate[width : 2 * width], gate[2 * width :]
    inner, new_bias, inner_bias = part[2 * width :], bias[2 * width : 3 * width], bias[3 * width :]
    _gru_row(reset, update, new, inner, new_bias, inner_bias, hidden, kept_hidden[token], kept[token], y[token])


@compiled(noalias=True, inline=True)
def _gru_row(reset, update, new, part, new_bias, inner_bias, hidden, kept_hidden, candidate, y):
    for j in range(hidden.size):
        before = hidden[j]
        inner = part[j] + inner_bias[j]
        result = tanh(new[j] + new_bias[j] + reset[j] * inner)
        shown = result + update[j] * (before - result)
        candidate[j] = inner
        new[j] = result
        kept_hidden[j] = before
        hidden[j] = shown
        y[j] = shown


@compiled(noalias=True, inline=True)
def _gru_backward(token, gates, kept_hidden, kept, outer, toward, cell_g, block, gates_g, rest_g):
    gate, gate_g, width = gates[token], gates_g[token], cell_g.size
    _gru_row_backward(
        gate[:width], gate[width : 2 * width], gate[2 * width :], kept[token], kept_hidden[token], outer, toward,
        block[:width], block[width : 2 * width], block[2 * width :], gate_g[2 * width :],
    )  # fmt: skip
    _copy(block[: 2 * width], gate_g)
    _copy(block[2 * width :], rest_g[token])


@compiled(noalias=True, inline=True)
def _gru_row_backward(reset, update, new, candidate, before, outer, toward, reset_g, update_g, candidate_g, new_g):
    for j in range(before.size):
        dh = toward[j] + outer[j]
        dn = dh * (1 - update[j]) * (1 - new[j] * new[j])
        new_g[j] = dn
        candidate_g[j] = dn * reset[j]
        reset_g[j] = dn * candidate[j] * reset[j] * (1 - reset[j])
        update_g[j] = dh * (before[j] - new[j]) * update[j] * (1 - update[j])
        toward[j] = dh * update[j]


@compiled(noalias=True, inline=True)
def _tanh(token, gates, part, bias, hidden, cell, kept_hidden, kept, y):
    """The only "gate" is the new hidden state."""
    gate = gates[token]
    _bend(gate, part, bias)
    _show(gate, hidden, kept_hidden[token], y[token])


@compiled(noalias=True, inline=True)
def _relu(token, gates, part, bias, hidden, cell, kept_hidden, kept, y):
    gate = gates[token]
    _rectify(gate, part, bias)
    _show(gate, hidden, kept_hidden[token], y[token])


@compiled(noalias=True, inline=True)
def _show(gate, hidden, kept_hidden, y):
    for j in range(gate.size):
        kept_hidden[j] = hidden[j]
        hidden[j] = gate[j]
        y[j] = gate[j]


@compiled(noalias=True, inline=True)
def _tanh_backward(token, gates, kept_hidden, kept, outer, toward, cell_g, block, gates_g, rest_g):
    _rnn_row_backward(gates[token], outer, toward, True, block, gates_g[token])


@compiled(noalias=True, inline=True)
def _relu_backward(token, gates, kept_hidden, kept, outer, toward, cell_g, block, gates_g, rest_g):
    _rnn_row_backward(gates[token], outer, toward, False, block, gates_g[token])


@compiled(noalias=True, inline=True)
def _rnn_row_backward(gate, outer, toward, curved, result, gate_g):
    zero, unit = gate.dtype.type(0), gate.dtype.type(1)
    for j in range(gate.size):
        slope = 1 - gate[j] * gate[j] if curved else (unit if gate[j] > 0 else zero)
        before = (toward[j] + outer[j]) * slope
        result[j] = before
        gate_g[j] = before


FORWARD = {
    name: _forward(name, cell) for name, cell in {"lstm": _lstm, "gru": _gru, "tanh": _tanh, "relu": _relu}.items()
}
BACKWARD = {
    "lstm": _backward("lstm", _lstm_backward, False),
    "gru": _backward("gru", _gru_backward, True),
    "tanh": _backward("tanh", _tanh_backward, False),
    "relu": _backward("relu", _relu_backward, False),
}


@chunked(noalias=True)
def weight_gradients(gates_g, rest_g, x, kept_hidden, gw_ih, gw_hh, gb, gb_rest, start, stop):
    """Rows start to stop of the weights' gradients, and their biases': sums over all tokens, of which there are some.

    The recurrent weights' last rows belong to `rest_g` (tokens, n) instead of the last n columns of `gates_g` (n may be 0).
    """
    shared = gates_g.shape[1] - rest_g.shape[1]
    columns_product(gates_g, x, gw_ih, start, stop, 0)
    _column_sums(gates_g, gb, start, stop)
    if start < shared:
        columns_product(gates_g, kept_hidden, gw_hh, start, min(stop, shared), 0)
    if stop > shared:
        first = max(start - shared, 0)
        columns_product(rest_g, kept_hidden, gw_hh, first, stop - shared, shared)
        _column_sums(rest_g, gb_rest, first, stop - shared)


@compiled(noalias=True)
def _column_sums(matrix, sums, start, stop):
    """Sums of the columns start to stop, in runs of 64 rows so that rounding does not grow with their number."""
    total = sums[start:stop]
    run = np.empty(stop - start, matrix.dtype)
    for j in range(total.size):
        total[j] = 0
    for first in range(0, matrix.shape[0], 64):
        for j in range(run.size):
            run[j] = 0
        for index in range(first, min(first + 64, matrix.shape[0])):
            row = matrix[index, start:stop]
            for j in range(run.size):
                run[j] += row[j]
        for j in range(run.size):
            total[j] += run[j]


@compiled(inline=True)
def _steps_of(sizes):
    """How many steps some row reaches: the others come last."""
    count = sizes.size
    while count and sizes[count - 1] == 0:
        count -= 1
    return count


@compiled(inline=True)
def _rows_of(working, group, groups):
    """How many of the first `working` rows belong to a group."""
    return max(0, (working - group + groups - 1) // groups)


@compiled(noalias=True, inline=True)
def _squash(gate, part, bias):
    for j in range(gate.size):
        gate[j] = sigmoid(gate[j] + part[j] + bias[j])


@compiled(noalias=True, inline=True)
def _bend(gate, part, bias):
    for j in range(gate.size):
        gate[j] = tanh(gate[j] + part[j] + bias[j])


@compiled(noalias=True, inline=True)
def _rectify(gate, part, bias):
    for j in range(gate.size):
        value = gate[j] + part[j] + bias[j]
        gate[j] = gate.dtype.type(0) if value < 0 else value


@compiled(noalias=True, inline=True)
def _copy(source, target):
    """`target[:] = source`, which Numba takes half a second to compile at each place."""
    for j in range(source.size):
        target[j] = source[j]


@compiled(noalias=True)
def _take_rows(states, rows, group, groups):
    for row in range(_rows_of(states.shape[0], group, groups)):
        _copy(states[group + row * groups], rows[row])


@compiled(noalias=True)
def _give_rows(rows, states, group, groups, width):
    for row in range(_rows_of(states.shape[0], group, groups)):
        for j in range(width):
            states[group + row * groups, j] = rows[row, j]
