"""Recurrent cells: one step of RNN, LSTM and GRU."""

from __future__ import annotations

import math
from typing import Any

from dynograd.base.hints import DeviceLike, DtypeLike
from dynograd.errors import ShapeError
from dynograd.interpreter.recorded_methods import recorded_whole
from dynograd.nn import init
from dynograd.nn.checks import check_sizes
from dynograd.nn.module import Module
from dynograd.nn.parameter import Parameter
from dynograd.ragged import is_ragged
from dynograd.tensor import creation
from dynograd.tensor.methods import public_functions
from dynograd.tensor.tensor import Tensor

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "RNNCellBase"]

_ops = public_functions()


class RNNCellBase(Module):
    """What the cells share: weights of `num_chunks` gates, their initial values, the check of input and state.

    Args:
        input_size, hidden_size: features of input and state.
        bias: whether each product adds a bias.
        num_chunks: how many gates: 1, 3 (GRU) or 4 (LSTM).
        device, dtype: of the parameters.
    Shape: input (B, input_size) or (input_size,), state (B, hidden_size) or (hidden_size,).
    Raises:
        TypeError, ShapeError: a size that is no integer, or negative.

    >>> isinstance(dynograd.nn.GRUCell(3, 5), dynograd.nn.RNNCellBase)
    True
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:
        super().__init__()
        check_sizes(type(self).__name__, input_size=input_size, hidden_size=hidden_size)
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = num_chunks * hidden_size
        shapes = {
            "weight_ih": (rows, input_size),
            "weight_hh": (rows, hidden_size),
            "bias_ih": (rows,),
            "bias_hh": (rows,),
        }
        for name, shape in shapes.items():
            kept = bias or not name.startswith("bias")
            self.register_parameter(
                name, Parameter(creation.empty(shape, device=device, dtype=dtype)) if kept else None
            )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new initial values, uniform within 1 / sqrt(hidden_size), for all weights and biases.

        >>> cell = dynograd.nn.GRUCell(3, 4)
        >>> cell.reset_parameters()
        >>> bool(cell.weight_hh.abs().max() <= 0.5)
        True
        """
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0.0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _weights(self) -> tuple:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def _ready(self, input: Any, states: Any, count: int = 1) -> tuple[Any, list[Any], bool]:
        """Input and `count` states with a batch dim, and whether it had to be added."""
        who = type(self).__name__
        ragged = is_ragged(input)
        if input.dim() not in (1, 2) and not (ragged and input.place == 1):
            raise ShapeError(
                f"{who}: Expected input to be 1D or 2D, got {input.dim()}D instead (shape {tuple(input.shape)}). Of ragged tensors it takes "
                f"(B, j, {self.input_size})."
            )
        if input.shape[-1] != self.input_size:
            raise ShapeError(
                f"{who}: input has {input.shape[-1]} features (shape {tuple(input.shape)}), expected {self.input_size}. "
                f"Build {who}({input.shape[-1]}, {self.hidden_size})."
            )
        single = input.dim() == 1
        x = input.unsqueeze(0) if single else input
        if states is None:
            start = _start(x, self.hidden_size)
            return x, [start] * count, single
        expected = (self.hidden_size,) if single else (*x.shape[:-1], self.hidden_size)
        for state in states:
            if tuple(state.shape) != expected:
                raise ShapeError(
                    f"{who}: expected hidden state of shape {expected} for input of shape {tuple(input.shape)}, got {tuple(state.shape)}."
                )
        return x, [state.unsqueeze(0) for state in states] if single else list(states), single

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if not self.bias:
            text += ", bias=False"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text


def _start(x: Any, width: int) -> Any:
    """States of zeros for each element of `x`, a tensor (B, I) or ragged (B, j, I)."""
    if is_ragged(x):
        return x.with_packed(_start(x.packed, width))
    return creation.zeros(x.shape[0], width, dtype=x.dtype, device=x.device)


class RNNCell(RNNCellBase):
    """One step of an Elman network: input and h to h'.

    h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu instead of tanh.

    Args:
        input_size, hidden_size: features of input and state.
        bias: whether each product adds a bias.
        nonlinearity: "tanh" or "relu".
        device, dtype: of the parameters.
    Shape: input (B, input_size) or (input_size,); h (B, hidden_size) or (hidden_size,), zeros when left out; gives h'
        of the state's shape.
    Raises:
        TypeError, ShapeError: a size that is no integer, or negative; in a call, an input or state that does not fit.
        RuntimeError: another nonlinearity.
    Source: Elman, Finding structure in time, 1990.

    >>> dynograd.nn.RNNCell(3, 5)(dynograd.zeros(2, 3)).shape
    dynograd.Size([2, 5])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        if nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"RNNCell: Unknown nonlinearity: {nonlinearity}. Select from 'tanh' or 'relu'.")
        self.nonlinearity = nonlinearity

    @recorded_whole
    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"RNNCell: Unknown nonlinearity: {self.nonlinearity}. Select from 'tanh' or 'relu'.")
        x, (h,), single = self._ready(input, None if hx is None else [hx])
        out = _ops[f"rnn_{self.nonlinearity}_cell"](x, h, *self._weights())
        return out.squeeze(0) if single else out


class LSTMCell(RNNCellBase):
    """One step of an LSTM: input and (h, c) to (h', c').

    i, f, o = sigmoid and g = tanh of W_ih x + b_ih + W_hh h + b_hh, rows in the order i, f, g, o; c' = f * c + i * g,
    h' = o * tanh(c').

    Args:
        input_size, hidden_size: features of input and state.
        bias: whether each product adds a bias.
        device, dtype: of the parameters.
    Shape: input (B, input_size) or (input_size,); a pair (h, c), each (B, hidden_size) or (hidden_size,), zeros when left out;
        gives (h', c') of the states' shapes.
    Raises:
        TypeError, ShapeError: a size that is no integer, or negative; in a call, an input or state that does not fit.
    Source: Hochreiter and Schmidhuber, Long short-term memory, 1997.

    >>> h, c = dynograd.nn.LSTMCell(3, 5)(dynograd.zeros(2, 3))
    >>> h.shape, c.shape
    (dynograd.Size([2, 5]), dynograd.Size([2, 5]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: DeviceLike = None, dtype: DtypeLike = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    @recorded_whole
    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        if hx is not None and (not isinstance(hx, (tuple, list)) or len(hx) != 2):
            raise ShapeError(f"LSTMCell: expected hx to be a pair (h, c), got {type(hx).__name__}.")
        x, states, single = self._ready(input, hx, 2)
        h, c = _ops["lstm_cell"](x, tuple(states), *self._weights())
        return (h.squeeze(0), c.squeeze(0)) if single else (h, c)


class GRUCell(RNNCellBase):
    """One step of a GRU: input and h to h'.

    r, z = sigmoid(W x + b + U h + d) and n = tanh(W x + b + r * (U h + d)), rows in the order r, z, n; h' = (1 - z) * n + z * h.

    Args:
        input_size, hidden_size: features of input and state.
        bias: whether each product adds a bias.
        device, dtype: of the parameters.
    Shape: input (B, input_size) or (input_size,); h (B, hidden_size) or (hidden_size,), zeros when left out; gives h'
        of the state's shape.
    Raises:
        TypeError, ShapeError: a size that is no integer, or negative; in a call, an input or state that does not fit.
    Source: Cho et al., Learning phrase representations using RNN encoder-decoder, 2014 (arXiv:1406.1078).

    >>> dynograd.nn.GRUCell(3, 5)(dynograd.zeros(2, 3), dynograd.zeros(2, 5)).shape
    dynograd.Size([2, 5])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: DeviceLike = None, dtype: DtypeLike = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    @recorded_whole
    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        x, (h,), single = self._ready(input, None if hx is None else [hx])
        out = _ops["gru_cell"](x, h, *self._weights())
        return out.squeeze(0) if single else out
