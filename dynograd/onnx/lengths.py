"""Rows of lengths in recurrent layers: `pack_padded_sequence` stays padded in a record, and the layers take the lengths as `sequence_lens`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.autograd.nodes import user_line
from dynograd.nn import RNNBase
from dynograd.nn.utils import rnn
from dynograd.onnx.noting import aside
from dynograd.onnx.refusals import refusal
from dynograd.onnx.structures import Watching
from dynograd.plans.recording import Recording
from dynograd.tensor import creation
from dynograd.tensor.tensor import Tensor

__all__ = ["LENGTHS"]


class _PaddedRows:
    """What stands for a PackedSequence while a program is recorded.

    Args:
        padded: the rows, (T, B, *) or (B, T, *) with `batch_first`.
        lengths: of each row.
        longest: the largest length.
        zeroed: zeros stand behind the ends.
    """

    def __init__(self, padded: Tensor, lengths: Tensor, batch_first: bool, longest: int, zeroed: bool) -> None:
        self.padded, self.lengths, self.batch_first = padded, lengths, batch_first
        self.longest, self.zeroed = longest, zeroed

    def laid_out(self, batch_first: bool) -> Tensor:
        return self.padded if batch_first == self.batch_first else self.padded.transpose(0, 1)

    @property
    def data(self) -> Tensor:
        """All tokens in rows, also those behind the ends, as a program computes with them one by one."""
        return self.padded.flatten(0, 1)

    def _replace(self, data: Tensor) -> _PaddedRows:
        padded = data.unflatten(0, tuple(self.padded.shape[:2]))
        return _PaddedRows(padded, self.lengths, self.batch_first, self.longest, False)

    def __getattr__(self, name: str) -> object:
        raise refusal(
            f"{name} of a PackedSequence has no form in ONNX",
            user_line(),
            "Hand it to a recurrent layer, and use what pad_packed_sequence gives.",
        )


def _pack(
    plan: Recording, below: Any, input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> _PaddedRows:
    with aside():
        longest = len(below(input, lengths, batch_first, enforce_sorted).batch_sizes)
        rows = lengths if isinstance(lengths, Tensor) else creation.tensor(lengths)
    return _PaddedRows(input, rows.long(), batch_first, longest, False)


def _layer(plan: Recording, below: Any, layer: Any, input: Any, hx: Any = None) -> object:
    if not isinstance(input, _PaddedRows):
        return below(layer, input, hx)
    if getattr(layer, "proj_size", 0):
        raise refusal(
            "lengths of rows in a layer with proj_size have no form in ONNX",
            user_line(),
            "Leave proj_size or the lengths out.",
        )
    rows = input.laid_out(False)
    output, finals = layer._layers(rows, layer._initial(rows, hx, rows.shape[1]), input.lengths)
    last = tuple(finals) if layer.mode == "LSTM" else finals[0]
    return _PaddedRows(output, input.lengths, False, input.longest, True), last


def _pad(
    plan: Recording,
    below: Any,
    sequence: Any,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> object:
    if not isinstance(sequence, _PaddedRows):
        return below(sequence, batch_first, padding_value, total_length)
    rows = sequence.laid_out(batch_first)
    steps = rows.shape[1 if batch_first else 0]
    longest = sequence.longest if total_length is None else total_length
    if longest != steps:
        raise refusal(
            f"pad_packed_sequence gives {longest} steps of rows that were padded to {steps}, which follows from values",
            user_line(),
            "Give an example whose longest row has the padded length, or total_length.",
        )
    if not sequence.zeroed or padding_value:
        valid = creation.arange(steps) < sequence.lengths.unsqueeze(1)
        valid = valid if batch_first else valid.transpose(0, 1)
        valid = valid.reshape(*valid.shape, *[1] * (rows.ndim - 2))
        rows = rows.masked_fill(~valid, padding_value)
    return rows, sequence.lengths


_HANDLERS: dict[Any, Callable[..., Any]] = {
    rnn.pack_padded_sequence: _pack,
    rnn.pad_packed_sequence: _pad,
    RNNBase.forward: _layer,
}
LENGTHS = Watching(_HANDLERS)
