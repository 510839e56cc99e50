"""One time step of LSTM and GRU cells, forward and backward, as Numba kernels on rows of whole-sequence buffers.

State buffers (`cells`, `hiddens`) hold the initial state in front, so row `before` onwards is the previous step's state
and row `now` onwards this step's; gate buffers start with the first step, at row `start`. Rows are cut into slices before
the inner loops, and the loops are short, because LLVM vectorises only loops with few possibly overlapping arrays.
"""

from dynograd.kernels.compiling_numba import compiled
from dynograd.kernels.math_numba import sigmoid, tanh

__all__ = ["gru_cell_backward", "gru_cell_forward", "lstm_cell_backward", "lstm_cell_forward"]


@compiled
def lstm_cell_forward(gates, recurrent, bias, cells, hiddens, start, before, now, rows):
    """Turn the projected inputs in `gates` into activated gates i, f, g, o; write this step's cells and hiddens."""
    width = cells.shape[1]
    update_bias = bias[2 * width : 3 * width]
    for row in range(rows):
        gate = gates[start + row]
        into = gate[:width]
        keep = gate[width : 2 * width]
        update = gate[2 * width : 3 * width]
        out = gate[3 * width :]
        part = recurrent[row]
        update_part = part[2 * width : 3 * width]
        previous = cells[before + row]
        cell = cells[now + row]
        hidden = hiddens[now + row]
        for j in range(width):
            update[j] = update[j] + update_part[j] + update_bias[j]
        for j in range(width):
            update[j] = tanh(update[j])
        _squash(gate[: 2 * width], part[: 2 * width], bias[: 2 * width])
        _squash(out, part[3 * width :], bias[3 * width :])
        for j in range(width):
            cell[j] = keep[j] * previous[j] + into[j] * update[j]
        for j in range(width):
            hidden[j] = out[j] * tanh(cell[j])


@compiled
def _squash(gate, part, bias):
    for j in range(gate.size):
        gate[j] = sigmoid(gate[j] + part[j] + bias[j])


@compiled
def lstm_cell_backward(gates, gate_gradients, cells, hidden_gradient, cell_gradient, g, start, before, now, rows):
    """Write this step's gradients before the activations; turn `cell_gradient` into the previous step's."""
    width = cells.shape[1]
    for row in range(rows):
        gate = gates[start + row]
        into = gate[:width]
        keep = gate[width : 2 * width]
        update = gate[2 * width : 3 * width]
        out = gate[3 * width :]
        gate_gradient = gate_gradients[start + row]
        into_gradient = gate_gradient[:width]
        keep_gradient = gate_gradient[width : 2 * width]
        update_gradient = gate_gradient[2 * width : 3 * width]
        out_gradient = gate_gradient[3 * width :]
        previous = cells[before + row]
        cell = cells[now + row]
        dh = hidden_gradient[row]
        dc = cell_gradient[row]
        outer = g[start + row]
        for j in range(width):
            squashed = tanh(cell[j])
            toward_hidden = dh[j] + outer[j]
            dc[j] += toward_hidden * out[j] * (1 - squashed * squashed)
            out_gradient[j] = toward_hidden * squashed * out[j] * (1 - out[j])
        for j in range(width):
            into_gradient[j] = dc[j] * update[j] * into[j] * (1 - into[j])
            update_gradient[j] = dc[j] * into[j] * (1 - update[j] * update[j])
        for j in range(width):
            keep_gradient[j] = dc[j] * previous[j] * keep[j] * (1 - keep[j])
            dc[j] *= keep[j]


@compiled
def gru_cell_forward(gates, recurrent, bias, new_bias, candidates, hiddens, start, before, now, rows):
    """Turn projected inputs into gates r, z, n; keep the recurrent part of n in `candidates`; write this step's hiddens."""
    width = hiddens.shape[1]
    bias_of_new = bias[2 * width :]
    for row in range(rows):
        gate = gates[start + row]
        reset = gate[:width]
        update = gate[width : 2 * width]
        new = gate[2 * width :]
        part = recurrent[row]
        part_of_new = part[2 * width :]
        candidate = candidates[start + row]
        previous = hiddens[before + row]
        hidden = hiddens[now + row]
        _squash(gate[: 2 * width], part[: 2 * width], bias[: 2 * width])
        for j in range(width):
            candidate[j] = part_of_new[j] + new_bias[j]
        for j in range(width):
            new[j] = tanh(new[j] + bias_of_new[j] + reset[j] * candidate[j])
        for j in range(width):
            hidden[j] = new[j] + update[j] * (previous[j] - new[j])


@compiled
def gru_cell_backward(
    gates, candidates, hiddens, input_gradients, recurrent_gradients, hidden_gradient, g, start, before, rows
):
    """Write this step's gradients of both projections, and in `hidden_gradient` what goes straight to the previous step."""
    width = hiddens.shape[1]
    for row in range(rows):
        gate = gates[start + row]
        reset = gate[:width]
        update = gate[width : 2 * width]
        new = gate[2 * width :]
        input_gradient = input_gradients[start + row]
        reset_gradient = input_gradient[:width]
        update_gradient = input_gradient[width : 2 * width]
        new_gradient = input_gradient[2 * width :]
        recurrent_gradient = recurrent_gradients[start + row]
        candidate_gradient = recurrent_gradient[2 * width :]
        candidate = candidates[start + row]
        previous = hiddens[before + row]
        dh = hidden_gradient[row]
        outer = g[start + row]
        for j in range(width):
            toward_hidden = dh[j] + outer[j]
            new_gradient[j] = toward_hidden * (1 - update[j]) * (1 - new[j] * new[j])
            update_gradient[j] = toward_hidden * (previous[j] - new[j]) * update[j] * (1 - update[j])
            dh[j] = toward_hidden * update[j]
        for j in range(width):
            candidate_gradient[j] = new_gradient[j] * reset[j]
            reset_gradient[j] = new_gradient[j] * candidate[j] * reset[j] * (1 - reset[j])
        for j in range(2 * width):
            recurrent_gradient[j] = input_gradient[j]
