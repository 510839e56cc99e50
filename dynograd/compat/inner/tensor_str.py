"""`torch._tensor_str`: how tensors are written, for packages whose tensors write themselves."""

from __future__ import annotations

from collections.abc import Sequence

from dynograd.tensor import printing
from dynograd.tensor.printing import get_printoptions, printoptions, set_printoptions
from dynograd.tensor.tensor import Tensor

__all__ = ["PRINT_OPTS", "get_printoptions", "printoptions", "set_printoptions"]


class _Options:
    """The options in force, as attributes."""

    def __getattr__(self, name: str) -> float | bool | None:
        options = get_printoptions()
        if name not in options:
            raise AttributeError(f"PRINT_OPTS has no option {name!r}; there are {', '.join(options)}.")
        return options[name]


PRINT_OPTS = _Options()


def _tensor_str(self: Tensor, indent: int) -> str:
    """The numbers of a tensor, lines below the first indented."""
    return printing._contents(self.detach().cpu().numpy(), indent)


def _add_suffixes(tensor_str: str, suffixes: Sequence[str], indent: int, force_newline: bool = False) -> str:
    """The text followed by the suffixes (`"size=(3,)"`) and a closing parenthesis."""
    pairs = dict([suffix.split("=", 1) for suffix in suffixes])
    return printing.with_suffixes(tensor_str, pairs, indent, force_newline)


def _str_intern(inp: Tensor, *, tensor_contents: str | None = None) -> str:
    """The text of a tensor; with `tensor_contents` in place of its numbers."""
    text = Tensor.__repr__(inp)
    return text if tensor_contents is None else f"tensor({tensor_contents})"


def _str(self: Tensor, *, tensor_contents: str | None = None) -> str:
    return _str_intern(self, tensor_contents=tensor_contents)
