"""`torch.fx.traceback`: what of one graph's nodes is kept on the nodes of the next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dynograd.overrides.fx.node import Node

__all__ = ["annotate", "get_current_meta", "has_preserved_node_meta", "preserve_node_meta", "set_current_meta"]

_preserving = False
_current: dict[str, Any] = {}


@contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """A context in which `set_current_meta` is kept."""
    global _preserving
    before, _preserving = _preserving, enable
    try:
        yield
    finally:
        _preserving = before


def has_preserved_node_meta() -> bool:
    return _preserving


@contextmanager
def set_current_meta(node: Node, pass_name: str = "") -> Iterator[None]:
    """A context in which `get_current_meta` gives the meta of this node."""
    global _current
    before = _current
    if _preserving and node.meta:
        _current = dict(node.meta)
    try:
        yield
    finally:
        _current = before


@contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """A context in which the current meta has these entries under "custom"."""
    global _current
    before = _current
    _current = {**before, "custom": {**before.get("custom", {}), **annotation_dict}}
    try:
        yield
    finally:
        _current = before


def get_current_meta() -> dict[str, Any]:
    return _current
