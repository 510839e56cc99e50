"""Names of the functions that a program may call, and the functions of these names.

A name leads to a row of the table of ops, to the public function or method of one, or to an entry of the lists below: functions of tensors and
numbers that touch neither files nor processes. Whatever else a file names is refused.
"""

from __future__ import annotations

import functools
import importlib
import types
from collections.abc import Callable
from typing import Any

from dynograd.errors import ProgramError
from dynograd.ops.op import Op, registry
from dynograd.tensor.tensor import Tensor

__all__ = ["function_of", "name_of", "others_in", "writes"]

_SPACES = {
    "torch": "dynograd",
    "nn.functional": "dynograd.nn.functional",
    "linalg": "dynograd.linalg",
    "fft": "dynograd.fft",
    "special": "dynograd.special",
    "recurrent": "dynograd.ops.recurrent.recurrences",
    "packed": "dynograd.nn.utils.rnn",
    "higher_order": "dynograd.compat.inner.higher_order",
    "vmap": "dynograd.transforms.vmap",
}
# Public functions that are no rows of the table of ops: they make tensors of numbers, draw, or call ops.
_OTHERS = {
    "torch": frozenset(
        """tensor as_tensor scalar_tensor arange range eye empty empty_like empty_permuted empty_strided full full_like linspace logspace ones
        ones_like zeros zeros_like bernoulli multinomial normal rand rand_like randint randint_like randn randn_like randperm bartlett_window
        blackman_window hamming_window hann_window kaiser_window dropout alpha_dropout feature_alpha_dropout feature_dropout dropout_
        alpha_dropout_ feature_dropout_ feature_alpha_dropout_ group_norm batch_norm instance_norm kl_div poisson_nll_loss
        binary_cross_entropy_with_logits convolution embedding embedding_bag hinge_embedding_loss cosine_embedding_loss margin_ranking_loss
        triplet_margin_loss resize_as_ cond while_loop detach detach_ fill_ zero_ histc frobenius_norm nuclear_norm norm_except_dim""".split()
    ),
    "nn.functional": frozenset(
        """adaptive_max_pool1d_with_indices adaptive_max_pool2d_with_indices adaptive_max_pool3d_with_indices max_pool1d_with_indices
        max_pool2d_with_indices max_pool3d_with_indices fractional_max_pool2d fractional_max_pool2d_with_indices fractional_max_pool3d
        fractional_max_pool3d_with_indices conv_tbc gumbel_softmax multi_head_attention_forward rrelu rrelu_""".split()
    ),
    "fft": frozenset(("fftfreq", "rfftfreq")),
    "recurrent": frozenset(("projected_lstm",)),
    "packed": frozenset(
        "pack_padded_sequence pad_packed_sequence pack_sequence unpack_sequence pad_sequence unpad_sequence lengths_of invert_permutation".split()
    ),
    "higher_order": frozenset(("scan", "map")),
    "vmap": frozenset(("map_examples",)),
}
_METHODS = frozenset(
    """detach detach_ cpu copy_ fill_ zero_ __setitem__ new_zeros new_ones new_empty new_full new_tensor squeeze_ unsqueeze_ transpose_ swapaxes_
    swapdims_ t_ fill_diagonal_ uniform_ normal_ random_ bernoulli_ exponential_ cauchy_ geometric_ log_normal_ bernoulli multinomial histc type
    polygamma polygamma_ __eq__ __ne__ __radd__ __rsub__ __rmul__ __rtruediv__ __rdiv__ __rfloordiv__ __rmod__ __rmatmul__ __rpow__ __rand__ __ror__
    __rxor__ __rlshift__ __rrshift__""".split()
)
_PROPERTIES = frozenset("H T mH mT imag real data".split())


def function_of(name: str) -> Callable[..., Any]:
    """The function of a name.

    Raises:
        ProgramError: there is none.
    """
    function = _known_function(name) if isinstance(name, str) else None
    if function is None:
        raise ProgramError(
            f"load_program: expected the name of an op, got {str(name)[:80]!r}. The file is damaged, or of another dynograd: export it anew."
        )
    return function


@functools.cache
def _known_function(name: str) -> Callable[..., Any] | None:
    entry = registry.get(name)
    if entry is not None:
        return entry.function if entry.is_of_the_library else None
    space, _, last = name.rpartition(".")
    if space == "Tensor":
        member = vars(Tensor).get(last)
        if isinstance(member, property):
            return member.fget if last in _PROPERTIES else None
        return member if _is_op(member) or last in _METHODS else None
    if space == "ragged":
        return importlib.import_module("dynograd.export.ragged_parts").FUNCTIONS.get(last)
    if space not in _SPACES:
        return None
    member = vars(importlib.import_module(_SPACES[space])).get(last)
    return member if _is_op(member) or last in _OTHERS.get(space, ()) else None


def others_in(space: str) -> frozenset[str]:
    """Names of the functions of a space that are no ops."""
    return _OTHERS[space]


def _is_op(function: Any) -> bool:
    entry = getattr(function, "op", None)
    return isinstance(function, types.FunctionType) and isinstance(entry, Op) and entry.is_of_the_library


def name_of(function: Any, kwargs: Any = ()) -> str | None:
    """The name of a function, or of the getter of an attribute, that is called with these arguments by name; None where it has none."""
    ops, others = _names(len(registry))
    function = _plain(function)
    entry = ops.get(function)
    if entry is not None and all([name in registry[entry].parameter_names for name in kwargs]):
        return entry
    return others.get(function)


def _plain(function: Any) -> Callable[..., Any] | None:
    """Handlers are told of attributes as bound `property.__get__`."""
    owner = getattr(function, "__self__", None)
    return owner.fget if isinstance(owner, property) else function


@functools.cache
def _names(count: int) -> tuple[dict[Any, str], dict[Any, str]]:
    """Where the table has so many ops: keys of functions that are an op's or stand for it, and names of functions in their spaces."""
    keys = {entry: key for key, entry in registry.items() if entry.is_of_the_library}
    ops: dict[Any, str] = {entry.function: key for entry, key in keys.items()}
    others: dict[Any, str] = {}
    for space, module in _SPACES.items():
        for name, member in list(vars(importlib.import_module(module)).items()):
            if not name.startswith("_") and isinstance(member, types.FunctionType):
                others.setdefault(member, f"{space}.{name}")
                key = keys.get(member.op, "") if hasattr(member, "op") else ""
                if key and not name.endswith("_"):
                    ops.setdefault(member, key)
    for name, member in vars(Tensor).items():
        getter = member.fget if isinstance(member, property) else member
        if callable(getter):
            others.setdefault(getter, f"Tensor.{name}")
    parts = importlib.import_module("dynograd.export.ragged_parts").FUNCTIONS
    others |= {function: f"ragged.{name}" for name, function in parts.items()}
    return ops, {function: name for function, name in others.items() if _known_function(name) is not None}


def writes(name: str, kwargs: Any = ()) -> bool:
    """Whether a call of that name writes into its first tensor, or into `out`."""
    last = name.removesuffix(".public").rpartition(".")[2]
    in_place = last.endswith("_") and not last.endswith("__")
    return in_place or last in ("__setitem__", "set_item", "copy") or last.startswith("__i") or "out" in kwargs
