"""`torch.functional`: functions of the top level under their older path. Nothing is defined here."""

from __future__ import annotations

from dynograd.interpreter.out_forms import out_forms
from dynograd.tensor.low_rank import pca_lowrank, svd_lowrank
from dynograd.tensor.methods import public_functions
from dynograd.tensor.top_level import broadcast_shapes

# What PyTorch's module has: where PyTorch defines a function says nothing about the op.
_NAMES = """atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors cartesian_prod cdist chain_matmul einsum istft lu meshgrid norm
split stft tensordot unique unique_consecutive unravel_index""".split()
_functions = public_functions()
globals().update(out_forms({name: _functions[name] for name in _NAMES}))
__all__ = [*_NAMES, "broadcast_shapes", "pca_lowrank", "svd_lowrank"]
assert None not in (broadcast_shapes, pca_lowrank, svd_lowrank)
