"""`torch.utils` as PyTorch programs import it. Each part is imported when it is named: command lines start without loaders and checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynograd.base.lazy_modules import module_below
from dynograd.base.listing import lists

if TYPE_CHECKING:
    from dynograd.utils import benchmark, checkpoint, data, dlpack, hooks
    from dynograd.utils.swapping import swap_tensors

__all__ = ["benchmark", "checkpoint", "data", "dlpack", "hooks", "swap_tensors"]
__dir__ = lists(__name__, __all__)


def __getattr__(name: str) -> object:
    if name == "swap_tensors":
        from dynograd.utils import swapping

        return swapping.swap_tensors
    module = module_below(__name__, name)
    if module is None:
        raise AttributeError(f"module 'dynograd.utils' has no attribute {name!r}")
    return module
