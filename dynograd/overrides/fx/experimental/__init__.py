"""Names of `torch.fx.experimental` that packages import."""

from dynograd.overrides.fx.experimental import proxy_tensor, symbolic_shapes

__all__ = ["proxy_tensor", "symbolic_shapes"]
