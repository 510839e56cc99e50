"""Why a name of PyTorch is missing here: refused, with the reason; a gap that is to be filled; or no public name of PyTorch either."""

from __future__ import annotations

import functools
import importlib
from pathlib import Path
from typing import Any

from dynograd.compat import refused
from dynograd.distributed import placements
from dynograd.tensor.absent import absence_of, absent_module
from dynograd.version import __version__

__all__ = ["gaps", "place_of", "refusal", "why_missing"]

_PYTORCH = __version__.partition("+")[0]
_MISSING = object()


def why_missing(name: str) -> str:
    """One sentence on a name that dynograd has not.

    >>> from dynograd.compat.verdicts import why_missing
    >>> why_missing("torch.quantize_per_tensor")[:60]
    'dynograd, which is torch here, refuses it: quantized tensors'
    """
    path = name.partition(".")[2]
    reason = absent_module(path) or ("." not in path and absence_of(path)) or None
    if reason is not None:
        return f"dynograd, which is torch here, refuses it: {reason}"
    if name in gaps():
        return f"PyTorch {_PYTORCH} has it; dynograd, which is torch here, has not yet. Please report what asks for it."
    return f"dynograd is torch here, and neither it nor PyTorch {_PYTORCH} has a public name of that kind."


def refusal(name: str) -> str | None:
    """Why a name that can be imported refuses to be called; None for names that work.

    >>> from dynograd.compat.verdicts import refusal
    >>> refusal("torch.nn.Linear"), refusal("torch.package.PackageImporter")[:27]
    (None, 'programs are not packaged. ')
    """
    module, _, last = name.partition(".")[2].rpartition(".")
    for path, member in ((module, last), (f"{module}.{last}", "")):
        if path in refused.modules():
            why, members = refused.modules()[path]
            names = {word.removesuffix("()") for word in members} - set(placements.__all__)
            return why if not member or member in names else None
    return None


@functools.cache
def gaps() -> frozenset[str]:
    """The public names of PyTorch that are missing without a reason; a test writes the list."""
    return frozenset(Path(__file__).with_name("gaps.txt").read_text(encoding="utf-8").split())


def place_of(name: str) -> object:
    """What dynograd has under a name of torch.

    Raises:
        LookupError: nothing.

    >>> from dynograd.compat.verdicts import place_of
    >>> place_of("torch.nn.Linear") is dynograd.nn.Linear
    True
    """
    path = "dynograd"
    place: Any = importlib.import_module(path)
    for part in name.split(".")[1:]:
        path = f"{path}.{part}"
        place = getattr(place, part, _MISSING)
        if place is _MISSING:
            try:
                place = importlib.import_module(path)
            except ImportError:
                raise LookupError(name) from None
    return place
