"""What the row of an op says to its readers: how users call it, what happens to dtypes, rows and groups. `op.py` holds the table."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, cast

__all__ = ["USUAL", "Row", "complete"]

if TYPE_CHECKING:
    from typing import TypedDict
else:

    class TypedDict(dict):
        """Python's own compiles the text of each annotation, which would take a thirtieth of every import of dynograd."""

        def __init_subclass__(cls, total: bool = True) -> None:
            pass


Policy = Literal["lower", "wide", "widest", "around"]


class Row(TypedDict, total=False):
    """What readers ask of an op beside how it is computed; the decorators take these fields, and an op that says nothing has `USUAL`.

    The decorators' own arguments say how it is computed. Of these, `inplace` says that there is a method `x.relu_()`, or with "function"
    a function `relu_(x)` of the top level as well.

    A file whose ops have something in common says it once, above them, as `FAMILY = Row(out=None)`; an op's own fields come before
    that. A public face has what its op has (but for `ragged`, `inner` and `direct`, which each says for itself).
    """

    # --- how users call it
    out: Literal["cast", "exact", "exact dtype", "apart", "exact apart"] | None
    """How the function under `dynograd.` takes `out=`: "cast" (into another dtype), "exact" (of the result's own dtype only), "exact dtype" (the
    same, and `dtype` is that of `out` unless it is given), "apart" (it may not lie in an operand's memory at all, else: not partly), "exact
    apart"; None: it has none, as views and layers of PyTorch."""
    tensors: str | None
    """The operands that may not be Python numbers ("input other"); "": all may be. None: an elementwise op of two wants one tensor."""
    aliases: dict[str, str]
    """PyTorch's other names of parameters. `dim` and `keepdim` are `axis` and `keepdims` in all functions that check their arguments; those that
    do not (views, and ops called as they are) name them here."""
    functional: bool | Literal["inplace"]
    """It is a name of `nn.functional`; "inplace": as `relu_` too."""
    inplace_view: bool | Literal["function"]
    """Its in-place method changes the tensor's own shape, not its elements (`x.unsqueeze_(0)`); "function": it is a function as well."""
    refills: bool
    """In place it writes one value, so that an element may lie in several places of the tensor."""
    direct: bool
    """Of a face: called with tensors and numbers in the op's order, it is the op."""

    # --- dtypes
    cast: Policy | dict[str, Policy] | None
    """What autocast makes of it, for all devices or by the device's type: "lower" (the autocast dtype), "wide" (float32), "widest" (the widest
    among the operands) or "around" (float32, and the result in the dtype of the first operand)."""
    ordered: bool
    """It compares sizes, which complex numbers do not have."""
    float8: bool
    """It is defined for float8."""

    # --- rows and groups
    inner: bool
    """It computes a gradient, or a part of other ops: readers have rules for the ops above it."""
    ragged: Literal["groups", "parts", "levels", "packed", "each", "places", "elements", "tokens"] | None
    """How it goes through rows of different lengths, where no rule in `dynograd/ragged/families` names it:
    "groups": rows of equal shape together, as it reads whole matrices, images or signals;
    "parts": as the ops that it is made of, though its file says "groups"; "levels": so on several levels of rows, too;
    and by rules that many ops share, "packed": one operand, each element for itself; "each": one row after the other; "places": each row picks
    from itself, or writes into itself; "elements" and "tokens": a loss of each, and the mean over all.
    None: "parts" where it is made of other ops, else "groups"."""
    uneven: bool
    """Automatic batching may run calls whose shapes differ in one dim together, as ragged rows."""
    at_once: str | None
    """Why automatic batching never records it."""
    partly_at_once: str | None
    """Why automatic batching does not record some of its calls."""
    by_row: str | None
    """The argument that differs from call to call (a place in the random stream), so that rows of a group have each their own."""
    bound: bool
    """The whole numbers that it or its rule reads (places, labels) are read by compiled kernels only, so that these can be run again on others."""
    work: (
        Literal[
            "product", "convolution", "attention", "recurrence", "input gradient", "weight gradient", "ragged attention"
        ]
        | None
    )
    """The kind of its arithmetic, for estimates and for counting operations; the gradients are a convolution's."""


USUAL = Row(
    out="cast",
    tensors=None,
    aliases={},
    functional=False,
    inplace_view=False,
    refills=False,
    direct=False,
    cast=None,
    ordered=False,
    float8=False,
    inner=False,
    ragged=None,
    uneven=False,
    at_once=None,
    partly_at_once=None,
    by_row=None,
    bound=False,
    work=None,
)
_OWN = ("ragged", "inner", "direct")  # fields that a face does not take from its op


def complete(row: Row, forward: Callable[..., Any], library: bool, view: Any, covered: Row | None) -> Row:
    """All fields of an op: its own, then those of the op it covers, of its file, and the usual ones."""
    if not row.keys() <= USUAL.keys():
        unknown = sorted(row.keys() - USUAL.keys())
        raise TypeError(f"{forward.__name__}: an op has no field {unknown}; it has {sorted(USUAL)}.")
    fields: dict[str, Any] = dict(USUAL)
    if library:
        fields |= getattr(sys.modules[forward.__module__], "FAMILY", {})
    if view:
        fields["out"] = None
    if covered is not None:
        fields |= {name: value for name, value in covered.items() if name not in _OWN}
    return cast(Row, fields | row)
