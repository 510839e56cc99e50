"""DataParallel, so that programs which wrap their model run and their state_dicts load; there is one device to run on."""

from __future__ import annotations

from typing import Any

from dynograd.nn.module import Module

__all__ = ["DataParallel"]


class DataParallel(Module):
    """Calls `module` with all of its input at once. Parameters are named `module.*`, as in PyTorch.

    >>> model = dynograd.nn.DataParallel(dynograd.nn.Linear(2, 1))
    >>> list(model.state_dict()), model(dynograd.zeros(3, 2)).shape
    (['module.weight', 'module.bias'], dynograd.Size([3, 1]))
    """

    def __init__(self, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.module = module
        self.device_ids, self.output_device, self.dim = list(device_ids or ()), output_device, dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)
