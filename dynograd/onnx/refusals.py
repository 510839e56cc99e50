"""The error of an export that cannot be."""

from __future__ import annotations

from dynograd.errors import OnnxError

__all__ = ["refusal"]


def refusal(what: str, line: str, way_out: str) -> OnnxError:
    """The error with the line of the program and a way out."""
    where = f", at {line}" if line else ""
    return OnnxError(f"onnx.export: {what}{where}. {way_out}")
