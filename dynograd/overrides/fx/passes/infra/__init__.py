"""What passes are made of."""

from dynograd.overrides.fx.passes.infra import pass_base

__all__ = ["pass_base"]
