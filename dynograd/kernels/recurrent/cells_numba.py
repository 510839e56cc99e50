"""Numba kernels of what follows the products in one step of LSTM and GRU, on C-contiguous (B, n H) rows."""

from dynograd.kernels.build.compiling_numba import compiled
from dynograd.kernels.formula.math_numba import sigmoid, tanh


@compiled
def lstm_rows(gates, previous, cells, hiddens):
    """Activates the blocks i, f, g, o of `gates` in place; writes the new cells and hiddens."""
    width = cells.shape[1]
    for row in range(cells.shape[0]):
        gate = gates[row]
        first, update, out = gate[: 2 * width], gate[2 * width : 3 * width], gate[3 * width :]
        into, keep = gate[:width], gate[width : 2 * width]
        before, cell, hidden = previous[row], cells[row], hiddens[row]
        for j in range(2 * width):
            first[j] = sigmoid(first[j])
        for j in range(width):
            update[j] = tanh(update[j])
        for j in range(width):
            out[j] = sigmoid(out[j])
        for j in range(width):
            cell[j] = keep[j] * before[j] + into[j] * update[j]
        for j in range(width):
            hidden[j] = out[j] * tanh(cell[j])


@compiled
def lstm_rows_backward(g_hidden, g_cell, gates, previous, cells, gate_gradients, cell_gradients):
    """Gradients before the activations and of the previous cells; `gates` as `lstm_rows` left them."""
    width = cells.shape[1]
    for row in range(cells.shape[0]):
        gate, gradient = gates[row], gate_gradients[row]
        into, keep, update, out = (
            gate[:width],
            gate[width : 2 * width],
            gate[2 * width : 3 * width],
            gate[3 * width :],
        )
        into_gradient, keep_gradient = gradient[:width], gradient[width : 2 * width]
        update_gradient, out_gradient = gradient[2 * width : 3 * width], gradient[3 * width :]
        before, cell, toward = previous[row], cells[row], cell_gradients[row]
        dh, dc = g_hidden[row], g_cell[row]
        for j in range(width):
            squashed = tanh(cell[j])
            toward[j] = dc[j] + dh[j] * out[j] * (1 - squashed * squashed)
            out_gradient[j] = dh[j] * squashed * out[j] * (1 - out[j])
        for j in range(width):
            into_gradient[j] = toward[j] * update[j] * into[j] * (1 - into[j])
            update_gradient[j] = toward[j] * into[j] * (1 - update[j] * update[j])
        for j in range(width):
            keep_gradient[j] = toward[j] * before[j] * keep[j] * (1 - keep[j])
            toward[j] *= keep[j]


@compiled
def gru_rows(gates, outer, previous, hiddens):
    """Activates the blocks r, z, n of `gates` (the projected inputs) in place; writes the new hiddens."""
    width = hiddens.shape[1]
    for row in range(hiddens.shape[0]):
        gate, part = gates[row], outer[row]
        first, new = gate[: 2 * width], gate[2 * width :]
        reset, update = gate[:width], gate[width : 2 * width]
        part_of_first, part_of_new = part[: 2 * width], part[2 * width :]
        before, hidden = previous[row], hiddens[row]
        for j in range(2 * width):
            first[j] = sigmoid(first[j] + part_of_first[j])
        for j in range(width):
            new[j] = tanh(new[j] + reset[j] * part_of_new[j])
        for j in range(width):
            hidden[j] = new[j] + update[j] * (before[j] - new[j])


@compiled
def gru_rows_backward(g, gates, outer, previous, inner_gradients, outer_gradients, previous_gradients):
    """Gradients of both projections and of the previous hiddens; `gates` as `gru_rows` left them."""
    width = previous.shape[1]
    for row in range(previous.shape[0]):
        gate, part, dh = gates[row], outer[row], g[row]
        reset, update, new = gate[:width], gate[width : 2 * width], gate[2 * width :]
        part_of_new = part[2 * width :]
        inner_gradient, outer_gradient = inner_gradients[row], outer_gradients[row]
        reset_gradient, update_gradient = inner_gradient[:width], inner_gradient[width : 2 * width]
        new_gradient, part_gradient = inner_gradient[2 * width :], outer_gradient[2 * width :]
        before, through = previous[row], previous_gradients[row]
        for j in range(width):
            new_gradient[j] = dh[j] * (1 - update[j]) * (1 - new[j] * new[j])
            update_gradient[j] = dh[j] * (before[j] - new[j]) * update[j] * (1 - update[j])
            through[j] = dh[j] * update[j]
        for j in range(width):
            part_gradient[j] = new_gradient[j] * reset[j]
            reset_gradient[j] = new_gradient[j] * part_of_new[j] * reset[j] * (1 - reset[j])
        for j in range(2 * width):
            outer_gradient[j] = inner_gradient[j]
