"""`nn.functional`: the ops of neural networks under PyTorch's names. Nothing is defined here."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from dynograd.base.listing import lists
from dynograd.base.signatures import find_here as _find_here
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.interpreter.out_forms import out_forms
from dynograd.interpreter.public_forms import explained
from dynograd.nn import (
    grad,  # noqa: F401 - programs write F.grad.conv2d_input
    randomized,
    variants,
)
from dynograd.nn.gumbel import gumbel_softmax
from dynograd.nn.multihead import (  # noqa: F401 - copies of PyTorch's layers import the first three from here
    _canonical_mask,
    _in_projection_packed,
    _none_or_dtype,
    multi_head_attention_forward,
)
from dynograd.ops.op import registry
from dynograd.tensor.methods import public_functions
from dynograd.tensor.tensor import Tensor

_ops = out_forms(public_functions())
_rows = [entry for entry in registry.values() if entry.row["functional"]]
_functions = {entry.name: _ops[entry.name] for entry in _rows}
_functions |= {
    f"{entry.name}_": getattr(Tensor, f"{entry.name}_") for entry in _rows if entry.row["functional"] == "inplace"
}
_functions |= {name: explained(getattr(module, name)) for module in (variants, randomized) for name in module.__all__}
_functions |= {
    "gumbel_softmax": gumbel_softmax,
    "multi_head_attention_forward": multi_head_attention_forward,
    "native_channel_shuffle": _ops["channel_shuffle"],
    "unfold": _ops["im2col"],  # Tensor.unfold is another op
}
__all__ = sorted(_functions)
globals().update(_functions)
__dir__ = lists(__name__, __all__)


def __getattr__(name: str) -> Any:
    alike = get_close_matches(name, __all__, 5)
    raise AttributeError(f"nn.functional has no {name!r}." + (f" It has {', '.join(alike)}." if alike else ""))


_show_plainly(globals())
_find_here(_functions, __name__)
