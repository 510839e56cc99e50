"""`torch._dynamo` for programs that set its options: nothing is traced, so they change nothing."""

from __future__ import annotations

from dynograd.base import stubs
from dynograd.compat.compiler import OptimizedModule, mark_dynamic, mark_static, maybe_mark_dynamic, reset
from dynograd.compat.import_paths import below

globals().update(stubs.names("_dynamo"))

__getattr__ = below("_dynamo")
__path__: list[str] = []  # there are modules below it (`compat.faces`)
__all__ = ["OptimizedModule", "mark_dynamic", "mark_static", "maybe_mark_dynamic", "reset", *stubs.names("_dynamo")]
