"""Recurrent layers over whole sequences; `rnn_cells.py` has their single steps.

Variable lengths come as a `PackedSequence`; work is proportional to the real tokens. Each layer and direction is one fused op.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any, TypeVar

from dynograd.base.hints import DeviceLike, DtypeLike
from dynograd.errors import ShapeError, user_level
from dynograd.interpreter.override_protocol import paused
from dynograd.nn import functional as F
from dynograd.nn import init
from dynograd.nn.checks import check_flag, check_number, check_sizes
from dynograd.nn.module import Module
from dynograd.nn.parameter import Parameter
from dynograd.nn.utils.rnn import PackedSequence, lengths_of
from dynograd.ops.op import registry
from dynograd.ops.recurrent.recurrences import projected_lstm
from dynograd.ragged import is_ragged
from dynograd.tensor import creation
from dynograd.tensor.methods import public_functions
from dynograd.tensor.tensor import Tensor

__all__ = ["GRU", "LSTM", "RNN", "RNNBase"]

_ops = public_functions()
_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    """The places along `dim` in another order: PyTorch's old name of `index_select`, which packages import from here."""
    return tensor.index_select(dim, permutation)


_Rows = TypeVar("_Rows", Tensor, PackedSequence)


class RNNBase(Module):
    """What RNN, LSTM and GRU share: the weights of each layer and direction, and the walk over them.

    Args:
        mode: "RNN_TANH", "RNN_RELU", "LSTM" or "GRU".
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype: as for `LSTM`.
    Shape: input (T, B, input_size), or (B, T, input_size) with batch_first, or (T, input_size), packed or ragged; see `forward`.
    Raises:
        TypeError, ValueError, ShapeError: as for `LSTM`.

    >>> isinstance(dynograd.nn.GRU(3, 5), dynograd.nn.RNNBase)
    True
    """

    _weights_instead: dict[str, Any] = {}  # of those assigned to _flat_weights, by name

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:
        super().__init__()
        who = type(self).__name__
        if not isinstance(hidden_size, int):
            raise TypeError(f"{who}: hidden_size should be of type int, got: {type(hidden_size).__name__}.")
        check_sizes(who, 1, input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        check_sizes(who, proj_size=proj_size)
        check_flag(who, bias=bias, batch_first=batch_first)
        check_number(who, "dropout", dropout)
        if isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError(f"{who}: dropout should be a number in range [0, 1], got {dropout!r}.")
        if proj_size and mode != "LSTM":
            raise ValueError(f"{who}: proj_size argument is only supported for LSTM, not RNN or GRU.")
        if not 0 <= proj_size < hidden_size:
            raise ValueError(
                f"{who}: proj_size has to be in [0, hidden_size), got {proj_size} and hidden_size {hidden_size}."
            )
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                f"dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers greater "
                f"than 1, but got dropout={dropout} and num_layers={num_layers}",
                stacklevel=user_level(),
            )
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        rows = _GATES[mode] * hidden_size
        state = proj_size or hidden_size
        directions = 2 if bidirectional else 1
        self._flat_weights_names: list[str] = []
        for layer in range(num_layers):
            width = input_size if layer == 0 else state * directions
            for direction in range(directions):
                end = f"_l{layer}" + ("_reverse" if direction else "")
                shapes: dict[str, tuple[int, ...]] = {
                    f"weight_ih{end}": (rows, width),
                    f"weight_hh{end}": (rows, state),
                }
                if bias:
                    shapes |= {f"bias_ih{end}": (rows,), f"bias_hh{end}": (rows,)}
                if proj_size:
                    shapes[f"weight_hr{end}"] = (proj_size, hidden_size)
                for name, shape in shapes.items():
                    setattr(self, name, Parameter(creation.empty(shape, device=device, dtype=dtype)))
                    self._flat_weights_names.append(name)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new initial values, uniform within 1 / sqrt(hidden_size), for all weights and biases.

        >>> layer = dynograd.nn.GRU(3, 4)
        >>> layer.reset_parameters()
        >>> bool(layer.weight_hh_l0.abs().max() <= 0.5)
        True
        """
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Does nothing: the layer's weights need no packing here. PyTorch's programs call it.

        >>> dynograd.nn.GRU(3, 4).flatten_parameters()
        """

    @property
    def _flat_weights(self) -> list[Any]:
        """The weights that the layer computes with. A list assigned to it stands in for the parameters, tensors with a history too; a weight
        that is later assigned by its own name counts again."""
        return [self._weight(name) for name in self._flat_weights_names]

    @_flat_weights.setter
    def _flat_weights(self, weights: Any) -> None:
        names = self._flat_weights_names
        if len(weights) != len(names):
            raise ValueError(
                f"{type(self).__name__}: _flat_weights takes {len(names)} tensors ({', '.join(names)}), got {len(weights)}."
            )
        pairs = zip(names, weights, strict=True)
        self._weights_instead = {name: weight for name, weight in pairs if weight is not getattr(self, name)}

    def _weight(self, name: str) -> Any:
        return self._weights_instead[name] if name in self._weights_instead else getattr(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._weights_instead:
            del self._weights_instead[name]
        super().__setattr__(name, value)

    @property
    def _all_weights(self) -> list[list[str]]:
        per_layer = 2 + 2 * self.bias + bool(self.proj_size)
        names = self._flat_weights_names
        return [names[start : start + per_layer] for start in range(0, len(names), per_layer)]

    @property
    def all_weights(self) -> list[list[Any]]:
        """The weights of each layer and direction, in the order of their names.

        Returns:
            a list for each layer and direction, of (weight_ih, weight_hh, bias_ih, bias_hh, weight_hr) as far as there are.

        >>> [weight.shape for weight in dynograd.nn.RNN(3, 4).all_weights[0]]
        [dynograd.Size([4, 3]), dynograd.Size([4, 4]), dynograd.Size([4]), dynograd.Size([4])]
        """
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """Runs the sequences.

        Args:
            input: (T, B, input_size), (B, T, input_size) with batch_first, (T, input_size), a PackedSequence, or
                ragged (B, j, input_size).
            hx: initial state(s) (layers * directions, B, hidden_size), zeros when left out; for LSTM a pair (h, c).
        Returns:
            (output, final state(s)): output (T, B, directions * hidden_size), laid out, packed or ragged as the input
                is; the state(s)
            (layers * directions, B, hidden_size). With proj_size, output and h have that size instead.
        Raises:
            ShapeError: an input or state of another rank or size.

        >>> output, h = dynograd.nn.GRU(3, 5)(dynograd.zeros(7, 2, 3))
        >>> output.shape, h.shape
        (dynograd.Size([7, 2, 5]), dynograd.Size([1, 2, 5]))
        """
        sequences: Any = input
        initial: Any = hx
        if is_ragged(sequences):
            return self._forward_ragged(sequences, initial)
        lengths = None
        packed = sequences if isinstance(sequences, PackedSequence) else None
        if packed is not None:
            x = packed.data
            # To programs that are exported, a size that follows from values is none to be told of.
            with paused(modes=True):
                self._check_input(x)
            lengths = lengths_of(packed.batch_sizes)
            if initial is not None and packed.sorted_indices is not None:
                initial = self._permuted(initial, packed.sorted_indices)
            single = False
        else:
            if sequences.dim() not in (2, 3):
                raise ShapeError(
                    f"{type(self).__name__}: Expected input to be 2D or 3D, got {sequences.dim()}D tensor instead (shape "
                    f"{tuple(sequences.shape)}). Input is (T, B, {self.input_size}), or (B, T, {self.input_size}) with batch_first."
                )
            self._check_input(sequences)
            single = sequences.dim() == 2
            if initial is not None:
                initial = self._same_rank(sequences, initial)
            if single:
                x = sequences.unsqueeze(1)
            else:
                x = sequences.transpose(0, 1) if self.batch_first else sequences
        states = self._initial(x, initial, x.shape[1] if lengths is None else len(lengths))
        output, finals = self._layers(x, states, lengths)
        if packed is not None:
            result: Any = PackedSequence(output, *packed[1:])
            if packed.unsorted_indices is not None:
                finals = [final.index_select(1, packed.unsorted_indices) for final in finals]
        elif single:
            result, finals = output.squeeze(1), [final.squeeze(1) for final in finals]
        else:
            result = output.transpose(0, 1) if self.batch_first else output
        return result, (tuple(finals) if self.mode == "LSTM" else finals[0])

    def _check_input(self, input: Any) -> None:
        if input.shape[-1] != self.input_size:
            raise ShapeError(
                f"{type(self).__name__}: input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)} "
                f"(input of shape {tuple(input.shape)}). Build {type(self).__name__}({input.size(-1)}, {self.hidden_size}), or "
                f"pass batch_first=True if batch comes first."
            )

    def _same_rank(self, input: Any, hx: Any) -> list[Any]:
        """The states with a batch dim, which they have to lack where `input` does."""
        states = list(hx) if isinstance(hx, (tuple, list)) else [hx]
        rank = input.dim()
        if any(state.dim() != rank for state in states):
            kind = "unbatched" if rank == 2 else "batched"
            raise ShapeError(
                f"{type(self).__name__}: For {kind} {rank}-D input, hx should also be {rank}-D but got "
                f"{', '.join(f'{state.dim()}-D' for state in states)}. States are (layers * directions, batch, size), without the batch for a single sequence."
            )
        return [state.unsqueeze(1) for state in states] if rank == 2 else states

    def _permuted(self, hx: Any, order: Any) -> list[Tensor]:
        states = hx if isinstance(hx, (tuple, list)) else [hx]
        return [apply_permutation(state, order) for state in states]

    def _initial(self, x: Any, hx: Any, batch: int) -> list[Any]:
        count = self.num_layers * (2 if self.bidirectional else 1)
        widths = [self.proj_size or self.hidden_size] + ([self.hidden_size] if self.mode == "LSTM" else [])
        if hx is None:
            return [creation.zeros(count, batch, width, dtype=x.dtype, device=x.device) for width in widths]
        states = list(hx) if isinstance(hx, (tuple, list)) else [hx]
        if len(states) != len(widths):
            expected = "hx to be a pair of tensors (h, c)" if len(widths) == 2 else "hx to be one tensor"
            got = f"{len(states)} of them" if isinstance(hx, (tuple, list)) else "one tensor"
            raise ShapeError(f"{type(self).__name__}: expected {expected}, got {got}.")
        for name, state, width in zip(
            ("hx[0]" if self.mode == "LSTM" else "hx", "hx[1]"), states, widths, strict=False
        ):
            if tuple(state.shape) != (count, batch, width):
                raise ShapeError(
                    f"{type(self).__name__}: Expected hidden size of {name} to be {(count, batch, width)} (layers * directions, batch, "
                    f"size), got {tuple(state.shape)}."
                )
        return states

    def _forward_ragged(self, input: Any, hx: Any) -> tuple[Any, Any]:
        """Sequences of any lengths, in any order, empty ones too: those keep their initial states. Of documents of sentences (B, j, j, I) the
        sentences are the sequences, with a final state for each of them."""
        if is_ragged(input.packed):
            output, finals = self._forward_ragged(input.packed, hx)
            return input.with_packed(output), finals
        if input.dim() != 3 or input.place != 1:
            raise ShapeError(
                f"{type(self).__name__}: Expected a ragged input (B, j, {self.input_size}), got shape {tuple(input.shape)}."
            )
        x, rows = input.packed, input.partition
        self._check_input(x)
        states = self._initial(x, hx, rows.count)
        output, finals = self._layers(x, states, rows.tensor("lengths", x.device), True)
        return input.with_packed(output), tuple(finals) if self.mode == "LSTM" else finals[0]

    def _layers(self, x: Any, states: list[Any], lengths: Any, ragged: bool = False) -> tuple[Any, list[Any]]:
        directions = 2 if self.bidirectional else 1
        finals: list[list[Any]] = [[] for _ in states]
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(directions):
                place = layer * directions + direction
                end = f"_l{layer}" + ("_reverse" if direction else "")
                weights = [self._weight(f"weight_{source}{end}") for source in ("ih", "hh")]
                biases = [self._weight(f"bias_{source}{end}") for source in ("ih", "hh")] if self.bias else [None, None]
                start = [state[place] for state in states]
                results = self._direction(x, start, weights, biases, end, lengths, direction == 1, ragged)
                outputs.append(results[0])
                for per_layer, final in zip(finals, results[1:], strict=True):
                    per_layer.append(final)
            x = outputs[0] if directions == 1 else _ops["cat"](outputs, -1)
            if self.dropout and self.training and layer < self.num_layers - 1:
                x = F.dropout(x, self.dropout, True)
        return x, [_ops["stack"](per_layer) for per_layer in finals]

    def _direction(
        self, x: Any, start: list, weights: list, biases: list, end: str, lengths: Any, reverse: bool, ragged: bool
    ) -> tuple[Tensor, ...]:
        order = {"reverse": reverse, "ragged": ragged}
        if self.proj_size:
            arrays = [x, *start, *weights, *biases, self._weight(f"weight_hr{end}"), lengths]
            return projected_lstm(*arrays, **order)
        name = {"LSTM": "lstm_layer", "GRU": "gru_layer"}.get(self.mode, "rnn_layer")
        kind = {"nonlinearity": "tanh" if self.mode == "RNN_TANH" else "relu"} if name == "rnn_layer" else {}
        layer: Any = registry[name].decomposition if x.dtype.is_complex else _ops[name]  # no kernels of complex numbers
        return layer(x, *start, *weights, *biases, lengths, **kind, **order)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.proj_size:
            text += f", proj_size={self.proj_size}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        if not self.bias:
            text += ", bias=False"
        if self.batch_first:
            text += ", batch_first=True"
        if self.dropout:
            text += f", dropout={self.dropout}"
        if self.bidirectional:
            text += ", bidirectional=True"
        return text


class RNN(RNNBase):
    """Elman network, layers stacked and optionally bidirectional.

    h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu instead of tanh.
    Parameters are named weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, and so on for further layers, with the ending
    `_reverse` for the other direction.

    Args:
        input_size: features of a step, at least 1.
        hidden_size: features of a state, at least 1.
        num_layers: stacked layers, each fed by the outputs of the one below.
        nonlinearity: "tanh" or "relu".
        bias: whether each product adds a bias.
        batch_first: input and output are (B, T, features), not (T, B, features); states stay as they are.
        dropout: the probability with which outputs of all layers but the last are dropped in training, from 0 to 1.
        bidirectional: a second set of weights runs from the end; outputs are concatenated.
        device, dtype: of the parameters.
    Shape: input (T, B, input_size), or (B, T, input_size) with batch_first, or (T, input_size), packed or ragged (B,
        j, input_size); gives output (T, B, directions * hidden_size) in the same layout, and h (layers * directions,
        B, hidden_size).
    Raises:
        TypeError: a size that is no integer, a flag that is no bool.
        ShapeError: a size that is too small; in a call, an input or state that does not fit.
        ValueError: dropout outside [0, 1]; another nonlinearity.
    Source: Elman, Finding structure in time, 1990.

    >>> output, h = dynograd.nn.RNN(3, 5, batch_first=True)(dynograd.zeros(2, 7, 3))
    >>> output.shape, h.shape
    (dynograd.Size([2, 7, 5]), dynograd.Size([1, 2, 5]))
    """

    if TYPE_CHECKING:

        def __call__(self, input: _Rows, hx: Tensor | None = None) -> tuple[_Rows, Tensor]: ...

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNN: Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        mode = "RNN_TANH" if nonlinearity == "tanh" else "RNN_RELU"
        super().__init__(
            mode, input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype
        )
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory, layers stacked and optionally bidirectional.

    i, f, o = sigmoid and g = tanh of W_ih x + b_ih + W_hh h + b_hh, rows in the order i, f, g, o; c' = f * c + i * g,
    h' = o * tanh(c'). Parameters are named weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, and so on for further
    layers, with the ending `_reverse` for the other direction.

    Args:
        input_size: features of a step, at least 1.
        hidden_size: features of a state, at least 1.
        num_layers: stacked layers, each fed by the outputs of the one below.
        bias: whether each product adds a bias.
        batch_first: input and output are (B, T, features), not (T, B, features); states stay as they are.
        dropout: the probability with which outputs of all layers but the last are dropped in training, from 0 to 1.
        bidirectional: a second set of weights runs from the end; outputs are concatenated.
        proj_size: h is projected to this size, less than hidden_size; 0 for no projection.
        device, dtype: of the parameters.
    Shape: input (T, B, input_size), or (B, T, input_size) with batch_first, or (T, input_size), packed or ragged (B,
        j, input_size); gives output (T, B, directions * hidden_size) in the same layout, and (h, c), each (layers *
        directions, B, hidden_size).
    Raises:
        TypeError: a size that is no integer, a flag that is no bool.
        ShapeError: a size that is too small; in a call, an input or state that does not fit.
        ValueError: dropout outside [0, 1]; proj_size outside [0, hidden_size).
    Source: Hochreiter and Schmidhuber, Long short-term memory, 1997.

    >>> lstm = dynograd.nn.LSTM(3, 5, bidirectional=True, batch_first=True)
    >>> output, (h, c) = lstm(dynograd.zeros(2, 7, 3))
    >>> output.shape, h.shape
    (dynograd.Size([2, 7, 10]), dynograd.Size([2, 2, 5]))
    """

    if TYPE_CHECKING:

        def __call__(
            self, input: _Rows, hx: tuple[Tensor, Tensor] | None = None
        ) -> tuple[_Rows, tuple[Tensor, Tensor]]: ...

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:
        super().__init__(
            "LSTM",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            proj_size,
            device,
            dtype,
        )


class GRU(RNNBase):
    """Gated recurrent units, layers stacked and optionally bidirectional.

    r, z = sigmoid(W x + b + U h + d) and n = tanh(W x + b + r * (U h + d)), rows in the order r, z, n; h' = (1 - z) * n + z * h.
    Parameters are named weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, and so on for further layers, with the ending
    `_reverse` for the other direction.

    Args:
        input_size: features of a step, at least 1.
        hidden_size: features of a state, at least 1.
        num_layers: stacked layers, each fed by the outputs of the one below.
        bias: whether each product adds a bias.
        batch_first: input and output are (B, T, features), not (T, B, features); states stay as they are.
        dropout: the probability with which outputs of all layers but the last are dropped in training, from 0 to 1.
        bidirectional: a second set of weights runs from the end; outputs are concatenated.
        device, dtype: of the parameters.
    Shape: input (T, B, input_size), or (B, T, input_size) with batch_first, or (T, input_size), packed or ragged (B,
        j, input_size); gives output (T, B, directions * hidden_size) in the same layout, and h (layers * directions,
        B, hidden_size).
    Raises:
        TypeError: a size that is no integer, a flag that is no bool.
        ShapeError: a size that is too small; in a call, an input or state that does not fit.
        ValueError: dropout outside [0, 1].
    Source: Cho et al., Learning phrase representations using RNN encoder-decoder, 2014 (arXiv:1406.1078); the reset is applied
        after the hidden product.

    >>> output, h = dynograd.nn.GRU(3, 5, batch_first=True)(dynograd.zeros(2, 7, 3))
    >>> output.shape, h.shape
    (dynograd.Size([2, 7, 5]), dynograd.Size([1, 2, 5]))
    """

    if TYPE_CHECKING:

        def __call__(self, input: _Rows, hx: Tensor | None = None) -> tuple[_Rows, Tensor]: ...

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:
        super().__init__(
            "GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype
        )
