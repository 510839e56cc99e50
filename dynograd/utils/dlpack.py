"""DLPack under PyTorch's names (`torch.utils.dlpack`).

>>> dynograd.utils.dlpack.from_dlpack(dynograd.utils.dlpack.to_dlpack(tensor([1, 2])))
tensor([1, 2])
"""

from dynograd.tensor.creation import from_dlpack, to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]
