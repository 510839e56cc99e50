"""The order in memory of results: strides of what PyTorch's and our functions give for transposed and channels-last arguments.

`memory_order_known.txt` names the entries of PyTorch's op database, and the layouts, for which they differ. From the top folder:

    python -m tests.parity.memory_order NAME...     shows the differences in these entries
    python -m tests.parity.memory_order --write     runs everything and writes memory_order_known.txt anew
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import dynograd
from tests.parity.database import known_of
from tests.parity.op_database import ENTRIES, FORWARD_DTYPES, UNINITIALISED, described, dtypes_of, samples_of
from tests.parity.op_database_twins import converted, twin

__all__ = ["KNOWN", "LAYOUTS", "differing"]

KNOWN_FILE = Path(__file__).with_name("memory_order_known.txt")
HEADER = "# Results whose order in memory is not PyTorch's: entry | layouts of the arguments. Lines only go away.\n"


def _turned(value: torch.Tensor, order: tuple[int, ...]) -> torch.Tensor:
    """The same tensor, its dims in memory in this order."""
    back = [order.index(place) for place in range(len(order))]
    return value.detach().permute(order).contiguous().permute(back)


def _transposed(value: torch.Tensor) -> torch.Tensor:
    return (
        _turned(value, (*range(value.ndim - 2), value.ndim - 1, value.ndim - 2)) if value.ndim > 1 else value.detach()
    )


def _reversed(value: torch.Tensor) -> torch.Tensor:
    return _turned(value, tuple(reversed(range(value.ndim))))


def _channels_last(value: torch.Tensor) -> torch.Tensor:
    return _turned(value, (0, *range(2, value.ndim), 1)) if value.ndim in (4, 5) else value.detach()


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "transposed": _transposed,
    "reversed": _reversed,
    "channels_last": _channels_last,
}


def differing(name: str) -> dict[str, list[str]]:
    """By layout, the samples of an entry whose results lie otherwise in memory."""
    entry, result = ENTRIES[name], {}
    if entry.name in UNINITIALISED:
        return result
    try:
        function = twin(entry.op, entry.name)
        samples = samples_of(entry, dtypes_of(entry, FORWARD_DTYPES)[0], most=6)
    except Exception:  # the op database says what is missing
        return result
    for layout, change in LAYOUTS.items():
        for sample in samples:
            arguments = torch.utils._pytree.tree_map(
                lambda one, change=change: change(one) if _dense(one) else one,
                (sample.input, tuple(sample.args), dict(sample.kwargs)),
            )
            met: dict[int, Any] = {}
            try:
                own = [converted(argument, met) for argument in arguments]
                expected = _strides(entry.op(arguments[0], *arguments[1], **arguments[2]))
                got = _strides(function(own[0], *own[1], **own[2]))
            except Exception:
                continue
            if len(got) == len(expected) and got != expected:
                result.setdefault(layout, []).append(f"{described(sample)}: {got} instead of {expected}")
    return result


def _dense(one: Any) -> bool:
    return isinstance(one, torch.Tensor) and one.layout is torch.strided


def _strides(result: Any) -> list[tuple[int, ...]]:
    """Of each tensor, the strides of the dims that are longer than 1."""
    leaves = torch.utils._pytree.tree_leaves(result)
    tensors = [
        leaf for leaf in leaves if _dense(leaf) or (isinstance(leaf, dynograd.Tensor) and hasattr(leaf, "stride"))
    ]
    return [
        tuple(step for step, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1)
        if 0 not in tensor.shape
        else ()
        for tensor in tensors
    ]


KNOWN = known_of(KNOWN_FILE)


def main() -> int:
    warnings.simplefilter("ignore")
    writing = "--write" in sys.argv
    chosen = [element for element in sys.argv[1:] if element != "--write"] or list(ENTRIES)
    lines = []
    for name in chosen:
        results = differing(name)
        if results:
            lines.append(f"{name} | {' '.join(results)}")
            print(
                name, *[f"\n    {layout} {text}" for layout, texts in results.items() for text in texts[:2]], flush=True
            )
    if writing:
        KNOWN_FILE.write_text(HEADER + "\n".join(lines) + "\n")
    print(f"{len(chosen) - len(lines)} of {len(chosen)} entries agree")
    return 0


if __name__ == "__main__":
    sys.exit(main())
