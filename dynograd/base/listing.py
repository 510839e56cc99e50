"""Which names of a module `dir` and completion show: those that PyTorch shows and dynograd has, and dynograd's own.

Everything else works when it is named; it is only not shown. PyTorch's names are read from `listed.txt` when they are first asked for.
`python -m tests.parity.test_listed_names` writes that file.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

__all__ = ["lists", "of_pytorch"]


@functools.cache
def of_pytorch() -> dict[str, frozenset[str]]:
    """Place ("" is the top level, then "nn", "Tensor", ...) -> the names that PyTorch lists there and dynograd has.

    >>> from dynograd.base.listing import of_pytorch
    >>> "relu" in of_pytorch()[""], "absolute_power" in of_pytorch()[""]
    (True, False)
    """
    lines = (Path(__file__).parent / "listed.txt").read_text(encoding="utf-8").splitlines()
    rows = [line.partition(":")[::2] for line in lines if not line.startswith("#")]
    return {place.removeprefix("."): frozenset(names.split()) for place, names in rows}


def lists(module: str, own: Iterable[str]) -> Callable[[], list[str]]:
    """The `__dir__` of a module, as `__dir__ = lists(__name__, __all__)`.

    Args:
        module: its name.
        own: names that it shows whether or not PyTorch does.
    Returns:
        A function without arguments that returns the names, sorted; among them those with two underscores that the module has.
    """
    place = module.partition(".")[2]
    own = frozenset(own)

    def listed() -> list[str]:
        dunders = {name for name in vars(sys.modules[module]) if name.startswith("__") and name.endswith("__")}
        return sorted(own | of_pytorch().get(place, frozenset()) | dunders)

    return listed
