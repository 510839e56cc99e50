"""One layer, one direction of LSTM, GRU and RNN over whole sequences on the GPU, twin of `recurrent_cpu`.

One product projects all inputs; then a kernel for each step multiplies the hidden states and computes the cell at once (for few units
one kernel runs all steps); backward, the same in reverse, and one product for each weight's gradient. Half types keep hidden states and
gradients of gates in their own type, as tensor cores take them; gates, cells and sums are float32.

Shapes: T time, B batch, N tokens, I inputs, H hidden. `x` is (T, B, I); with `lengths` (B) a row of length l keeps its state after
step l and its outputs beyond are zero, whatever `x` holds there. Nothing waits for the device then: rows at rest are masked, and
steps in which a block of rows rests cost no product. Or `x` is packed, (N, I): the real tokens of step 0, then of step 1, and so on, with
`lengths` longest first; their sizes are computed on the host. With `ragged`, (N, I) are those of row 0, then of row 1, and so on: they are
packed first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy

from dynograd.arrays.cuda_arrays import CudaArray, empty, from_numpy, operations, same_device
from dynograd.cuda import driver
from dynograd.kernels.build import precision
from dynograd.kernels.build.batch_invariance import batch_invariant
from dynograd.kernels.index import indexing_cuda
from dynograd.kernels.layout.copies_cuda import contiguous
from dynograd.kernels.matmul import matmuls_cuda
from dynograd.kernels.recurrent import recurrent_triton as device
from dynograd.kernels.recurrent.recurrent_packing_cpu import ragged_places, sizes_of

# The recurrent weights of so few bytes stay in the first-level cache of a multiprocessor, which then runs all steps of its rows.
_NEAR_BYTES = 128 << 10
_float32 = numpy.dtype(numpy.float32)


class Layout(NamedTuple):
    """Where tokens lie: that of row r in step t is `t * step + r * row`, or `starts[t] + r`; see `recurrent_triton`."""

    steps: int
    batch: int
    tokens: int
    step: int
    row: int
    ragged: int  # 0: all rows run through, 1: `lengths` of rows, 2: packed, `lengths` are sizes of steps
    lengths: CudaArray | None
    starts: CudaArray | None
    places: tuple[CudaArray, ...] = ()  # of ragged tokens: see `recurrent_packing_cpu.ragged_places`

    def sort(self, state):
        """A (B, D) state with its rows longest first, where tokens are ragged."""
        return _taken(state, self.places[0]) if self.places else state

    def unsort(self, state):
        """Inverse of `sort`."""
        return _taken(state, self.places[1]) if self.places else state

    def pack(self, x):
        """`x`, or what has its tokens, as (N, D); 0 in padding, whatever was there."""
        width = x.shape[-1]
        if self.places:
            return _taken(x, self.places[2])
        if self.ragged == 1:
            if x.shape[2] > 1 and x.strides[2] != x.itemsize:
                x = x.copy()
            result = empty((self.tokens, width), x.dtype, x.device_index)
            steps = [step // x.itemsize for step in x.strides[:2]]
            block = min(1024, max(16, 1 << (max(width, 1) - 1).bit_length()))
            device.real_tokens(
                (self.tokens, -(-width // block)), x, result, self.lengths, self.batch, width, *steps, self.step, self.row, BLOCK=block,
                num_warps=4,
            )  # fmt: skip
            return result
        if self.ragged == 0 and self.step == 1 and self.row != 1:
            x = x.transpose(1, 0, 2)
        x = contiguous(x)
        return x.reshape(self.tokens, width)

    def unpack(self, packed):
        """(N, D) in the shape of x."""
        if self.places:
            return _taken(packed, self.places[3])
        if self.ragged == 2:
            return packed
        if self.step == 1 and self.row != 1:
            return packed.reshape(self.batch, self.steps, packed.shape[1]).transpose(1, 0, 2)
        return packed.reshape(self.steps, self.batch, packed.shape[1])


def lstm_forward(x, h0, c0, w_ih, w_hh, b_ih, b_hh, lengths=None, reverse=False, ragged=False):
    layout = _layout(x, lengths, ragged, h0, c0, w_ih, w_hh, b_ih, b_hh)
    w_hh = contiguous(w_hh)
    gates = _projected(layout, x, w_ih, _joined_bias(b_ih, b_hh))
    hidden, cell = _states(layout.sort(h0)), _copied(layout.sort(c0), gates.dtype)
    kept_hidden, kept_cell, y = _new(layout, h0, x.dtype), _new(layout, h0, gates.dtype), _new(layout, h0, h0.dtype)
    _run_forward("lstm", layout, reverse, gates, w_hh, None, hidden, cell, kept_hidden, kept_cell, y)
    last = layout.unsort(hidden[layout.steps % 2])
    cell = layout.unsort(cell).astype(x.dtype, copy=False)
    return layout.unpack(y), last, cell, (layout, reverse, gates, kept_hidden, kept_cell)


def lstm_backward(gy, gh_n, gc_n, x, h0, c0, w_ih, w_hh, reserve, input_gradient=True):
    layout, reverse, gates, kept_hidden, kept_cell = reserve
    gh0, gc0 = (_state_gradient(layout, g, h0, gates.dtype) for g in (gh_n, gc_n))
    gates_g = _gradients(layout, gates.shape[1], x)
    _run_backward("lstm", layout, reverse, gates, contiguous(w_hh), None, kept_cell, gy, gates_g, gates_g, gh0, gc0)
    gx, gw_ih, gw_hh, gb = _weight_gradients(layout, gates_g, gates_g, x, w_ih, kept_hidden, input_gradient)
    gh0, gc0 = (layout.unsort(operand).astype(x.dtype, copy=False) for operand in (gh0, gc0))
    return gx, gh0, gc0, gw_ih, gw_hh, gb, gb.copy()


def gru_forward(x, h0, w_ih, w_hh, b_ih, b_hh, lengths=None, reverse=False, ragged=False):
    layout = _layout(x, lengths, ragged, h0, w_ih, w_hh, b_ih, b_hh)
    width = w_hh.shape[1]
    w_hh = contiguous(w_hh)
    gates = _projected(layout, x, w_ih, _joined_bias(b_ih, b_hh, 2 * width))
    if b_hh is None:
        new_bias = empty((width,), x.dtype, x.device_index)
        new_bias.fill(0)
    else:
        new_bias = contiguous(b_hh[2 * width :])
    hidden = _states(layout.sort(h0))
    kept_hidden, candidates, y = _new(layout, h0, x.dtype), _new(layout, h0, gates.dtype), _new(layout, h0, h0.dtype)
    _run_forward("gru", layout, reverse, gates, w_hh, new_bias, hidden, None, kept_hidden, candidates, y)
    return layout.unpack(y), layout.unsort(hidden[layout.steps % 2]), (layout, reverse, gates, kept_hidden, candidates)


def gru_backward(gy, gh_n, x, h0, w_ih, w_hh, reserve, input_gradient=True):
    """Gradients (gx, gh0, gw_ih, gw_hh, gb_ih, gb_hh); conventions of `lstm_backward`."""
    layout, reverse, gates, kept_hidden, candidates = reserve
    gh0 = _state_gradient(layout, gh_n, h0, gates.dtype)
    gates_g, candidates_g = (_gradients(layout, gates.shape[1], x) for _ in range(2))
    operands = gates, contiguous(w_hh), kept_hidden, candidates, gy, gates_g, candidates_g, gh0, None
    _run_backward("gru", layout, reverse, *operands)
    gx, gw_ih, gw_hh, gb_ih = _weight_gradients(layout, gates_g, candidates_g, x, w_ih, kept_hidden, input_gradient)
    return gx, layout.unsort(gh0).astype(x.dtype, copy=False), gw_ih, gw_hh, gb_ih, candidates_g.sum(0)


def rnn_forward(x, h0, w_ih, w_hh, b_ih, b_hh, nonlinearity="tanh", lengths=None, reverse=False, ragged=False):
    """Outputs, last hidden states (B, H), reserve; h' = tanh or relu of x W_ih^T + b_ih + h W_hh^T + b_hh."""
    layout = _layout(x, lengths, ragged, h0, w_ih, w_hh, b_ih, b_hh)
    w_hh = contiguous(w_hh)
    gates = _projected(layout, x, w_ih, _joined_bias(b_ih, b_hh))
    hidden = _states(layout.sort(h0))
    kept_hidden, y = _new(layout, h0, x.dtype), _new(layout, h0, h0.dtype)
    _run_forward(nonlinearity, layout, reverse, gates, w_hh, None, hidden, None, kept_hidden, None, y)
    return (
        layout.unpack(y),
        layout.unsort(hidden[layout.steps % 2]),
        (layout, reverse, gates, kept_hidden, nonlinearity),
    )


def rnn_backward(gy, gh_n, x, h0, w_ih, w_hh, reserve, input_gradient=True):
    """Gradients (gx, gh0, gw_ih, gw_hh, gb_ih, gb_hh); conventions of `lstm_backward`."""
    layout, reverse, gates, kept_hidden, nonlinearity = reserve
    gh0 = _state_gradient(layout, gh_n, h0, gates.dtype)
    gates_g = _gradients(layout, gates.shape[1], x)
    _run_backward(nonlinearity, layout, reverse, gates, contiguous(w_hh), None, None, gy, gates_g, gates_g, gh0, None)
    gx, gw_ih, gw_hh, gb = _weight_gradients(layout, gates_g, gates_g, x, w_ih, kept_hidden, input_gradient)
    return gx, layout.unsort(gh0).astype(x.dtype, copy=False), gw_ih, gw_hh, gb, gb.copy()


# --- where tokens lie --------------------------------------------------------------------------------------------------------


def _layout(x, lengths, ragged, *others):
    same_device("recurrent layer", x, *others)
    if x.ndim == 2:
        known = numpy.asarray(lengths.numpy() if isinstance(lengths, CudaArray) else lengths)
        on = x.device_index
        places = ragged_places(known) if ragged else ()
        sizes = sizes_of(known[places[0]] if ragged else known).astype(numpy.int64)
        places = tuple([from_numpy(place, on) for place in places])
        starts = from_numpy(numpy.cumsum(sizes) - sizes, on)
        return Layout(len(sizes), len(known), x.shape[0], 1, 1, 2, from_numpy(sizes, on), starts, places)
    steps, batch = x.shape[:2]
    by_rows = not x.is_contiguous and x.transpose(1, 0, 2).is_contiguous
    step, row = (1, steps) if by_rows else (batch, 1)
    if lengths is not None:
        if not isinstance(lengths, CudaArray):
            lengths = from_numpy(numpy.asarray(lengths), x.device_index)
        lengths = contiguous(lengths)
    return Layout(steps, batch, steps * batch, step, row, int(lengths is not None), lengths, None)


def _new(layout, state, kind):
    result = empty((layout.tokens, state.shape[1]), kind, state.device_index)
    if layout.ragged == 1:
        result.fill(0)  # what padding holds is multiplied by gradients of 0
    return result


def _gradients(layout, width, x):
    result = empty((layout.tokens, width), x.dtype, x.device_index)
    if layout.ragged == 1:
        result.fill(0)
    return result


# --- what the kernels share --------------------------------------------------------------------------------------------------


def _projected(layout, x, w_ih, bias):
    """All inputs through W_ih, in the type that computes."""
    kind = _float32 if x.dtype.itemsize == 2 else x.dtype
    return matmuls_cuda.multiply(layout.pack(x), w_ih.T, bias, out_dtype=kind, tf32="cudnn")


def _run_forward(cell, layout, reverse, gates, weight, *arrays):
    operands = (gates, weight, *arrays)
    _run(device.recurrent_steps, layout, layout.steps, operands, (), weight, CELL=cell, REVERSE=bool(reverse))


def _run_backward(cell, layout, reverse, gates, weight, kept_hidden, kept, gy, *gradients):
    gy, steps = _output_gradient(layout, gy)
    operands = (gates, weight, kept_hidden, kept, gates if gy is None else gy, *gradients)
    options = {"CELL": cell, "REVERSE": bool(reverse), "GIVEN": gy is not None}
    _run(device.recurrent_steps_backward, layout, layout.steps + 1, operands, steps, weight, **options)


def _run(kernel, layout, places, arrays, steps, weight, **constants):
    width, batch = weight.shape[1], layout.batch
    if not places or not batch or not width or not layout.steps:
        return
    size = weight.itemsize
    near = weight.nbytes <= _NEAR_BYTES
    depth = 16 if size == 8 else 32 if size == 4 else 64
    high = 16 if near or batch <= 16 or batch_invariant() or size == 8 else 32 if batch <= 32 else 64
    wide = 16 if high >= 32 or size == 8 else 32
    blocks = -(-batch // high)
    if not near and wide == 32 and blocks * -(-width // 32) < _processors(weight):
        wide = 16
    like = weight if layout.lengths is None else layout.lengths
    numbers = (like if layout.starts is None else layout.starts, like)
    unit = 16 // size
    tf32 = weight.dtype == _float32 and precision.allows_tf32("cudnn")
    constants |= {
        "RAGGED": layout.ragged, "UNIT": 1 if width % unit or weight.pointer % 16 else unit,
        "FULL": width % max(depth, wide) == 0, "PRECISION": "tf32" if tf32 else "ieee", "PERSISTENT": near, "BB": high,
        "BU": wide, "BK": depth, "num_warps": 4, "num_stages": 3,
    }  # fmt: skip
    grid = (blocks, 1 if near else -(-width // wide))
    for first, last in [(0, places)] if near else [(place, place + 1) for place in range(places)]:
        kernel(
            grid,
            *arrays,
            *numbers,
            first,
            last,
            layout.steps,
            batch,
            width,
            layout.step,
            layout.row,
            *steps,
            **constants,
        )


def _weight_gradients(layout, gates_g, recurrent_g, x, w_ih, kept_hidden, input_gradient):
    """(gx or None, gw_ih, gw_hh, gb)."""
    gx = None
    if input_gradient:
        gx = layout.unpack(matmuls_cuda.multiply(gates_g, w_ih, tf32="cudnn"))
    gw_ih = matmuls_cuda.multiply(gates_g.T, layout.pack(x), tf32="cudnn")
    gw_hh = matmuls_cuda.multiply(recurrent_g.T, kept_hidden, tf32="cudnn")
    return gx, gw_ih, gw_hh, gates_g.sum(0)


def _states(h0):
    """(2, B, H): the initial states and room for those of the next step."""
    result = empty((2, *h0.shape), h0.dtype, h0.device_index)
    operations.copy_into(result[0], h0)
    return result


def _copied(state, kind):
    result = empty(state.shape, kind, state.device_index)
    operations.copy_into(result, state)
    return result


def _state_gradient(layout, g, like, kind):
    if g is not None:
        return _copied(layout.sort(g), kind)
    result = empty(like.shape, kind, like.device_index)
    result.fill(0)
    return result


def _output_gradient(layout, gy):
    """gy with its last dim in one piece, and how many rows of H its tokens lie apart in step and row."""
    if gy is None:
        return None, (0, 0)
    if layout.ragged == 2:
        return contiguous(layout.pack(gy)), (1, 1)
    width = gy.shape[2] * gy.itemsize
    if (gy.shape[2] > 1 and gy.strides[2] != gy.itemsize) or any([step % max(width, 1) for step in gy.strides[:2]]):
        gy = gy.copy()
    return gy, tuple([step // max(width, 1) for step in gy.strides[:2]])


def _joined_bias(b_ih, b_hh, shared=None):
    """b_ih + b_hh, over the first `shared` entries only where the recurrent rest is added elsewhere."""
    if b_hh is not None and shared is not None:
        cut = empty(b_hh.shape, b_hh.dtype, b_hh.device_index)
        cut[shared:].fill(0)
        operations.copy_into(cut[:shared], b_hh[:shared])
        b_hh = cut
    if b_ih is None or b_hh is None:
        return b_ih if b_hh is None else b_hh
    if b_ih.dtype.itemsize == 2:  # their sum is rounded once, when it has been added
        b_ih, b_hh = b_ih.astype(_float32), b_hh.astype(_float32)
    return b_ih + b_hh


def _taken(rows, places):
    return indexing_cuda.index_forward(rows, [places], (0,))


def _processors(array):
    return driver.get("recurrent layer").attribute(array.device_index, "multiprocessor_count")
