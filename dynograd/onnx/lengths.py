"""Rows of lengths in recurrent layers: `pack_padded_sequence` stays padded in a record, and the layers take the lengths as `sequence_lens`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.autograd.nodes import user_line
from dynograd.compat.inner import higher_order
from dynograd.nn import RNNBase
from dynograd.nn import functional as F
from dynograd.nn.utils import rnn
from dynograd.onnx.noting import aside, notes_of_thread
from dynograd.onnx.refusals import refusal
from dynograd.onnx.structures import Watching
from dynograd.ops.op import registry
from dynograd.ops.recurrent.recurrences import projected_lstm
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
    notes = notes_of_thread()
    assert notes is not None
    if isinstance(lengths, Tensor):
        notes.lengths.append((plan, plan._described(lengths), tuple(input.shape)))
    return _PaddedRows(input, rows.long(), batch_first, longest, False)


def _layer(plan: Recording, below: Any, layer: Any, input: Any, hx: Any = None) -> object:
    if not isinstance(input, _PaddedRows):
        return below(layer, input, hx)
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


def _projected(
    plan: Recording,
    below: Any,
    input: Tensor,
    h_0: Tensor,
    c_0: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor | None,
    bias_hh: Tensor | None,
    weight_hr: Tensor,
    lengths: Tensor | None = None,
    reverse: bool = False,
    ragged: bool = False,
) -> tuple[Any, ...]:
    """ONNX's LSTM has no projection: a scan over the steps, in which rows that have ended stay as they are."""
    if ragged:
        raise refusal(
            "an LSTM with proj_size over ragged rows has no form in ONNX",
            user_line(),
            "Pad the rows, and give their lengths by pack_padded_sequence.",
        )

    def step(states: tuple[Tensor, Tensor], row: tuple[Tensor, Tensor]) -> tuple[Any, Tensor]:
        (hidden, cell), (gates, place) = states, row
        raw, new_cell = registry["lstm_step"].function(gates + F.linear(hidden, weight_hh, bias_hh), cell)
        new_hidden = output = F.linear(raw, weight_hr)
        if lengths is not None:
            goes_on = (lengths > place).unsqueeze(1)
            output = new_hidden.where(goes_on, 0.0)
            new_hidden, new_cell = new_hidden.where(goes_on, hidden), new_cell.where(goes_on, cell)
        return (new_hidden, new_cell), output

    columns = F.linear(input, weight_ih, bias_ih), creation.arange(input.shape[0])
    (hidden, cell), output = higher_order.scan(step, (h_0, c_0), columns, reverse=reverse)
    return output, hidden, cell


_HANDLERS: dict[Any, Callable[..., Any]] = {
    rnn.pack_padded_sequence: _pack,
    rnn.pad_packed_sequence: _pad,
    RNNBase.forward: _layer,
    projected_lstm: _projected,
}
LENGTHS = Watching(_HANDLERS)
