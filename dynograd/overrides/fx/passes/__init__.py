"""Passes over graphs."""

from dynograd.overrides.fx.passes import infra, shape_prop, split_module

__all__ = ["infra", "shape_prop", "split_module"]
