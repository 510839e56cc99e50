"""Whether products of float32 arrays on a GPU may round their factors to TF32 (10 bits of mantissa): faster, less exact.

PyTorch's switches and defaults: matrix products may not, convolutions and recurrent layers may.
"""

from __future__ import annotations

DEFAULTS = {"matmul": False, "cudnn": True}
_allowed = dict(DEFAULTS)
_precision = "highest"


def allows_tf32(what: str) -> bool:
    """Whether "matmul" or "cudnn" (convolutions, recurrent layers) may use TF32."""
    return _allowed[what]


def set_allow_tf32(what: str, allow: bool) -> None:
    """Whether "matmul" or "cudnn" (convolutions, recurrent layers) may use TF32 from now on.

    Args:
        what: one of the two.
        allow: True or False.
    Raises:
        TypeError: `allow` is not a bool.
    """
    global _precision
    if not isinstance(allow, bool):
        raise TypeError(f"allow_tf32: expected True or False, got {type(allow).__name__} {allow!r}.")
    _allowed[what] = allow
    if what == "matmul":
        _precision = "high" if allow else "highest"


def set_float32_matmul_precision(precision: str) -> None:
    """How exactly GPUs multiply float32 matrices: "highest" in float32, "high" and "medium" with factors rounded to TF32.

    Args:
        precision: one of the three words.
    Raises:
        ValueError: another word.

    >>> dynograd.set_float32_matmul_precision("highest")
    """
    global _precision
    if precision not in ("highest", "high", "medium"):
        raise ValueError(
            f"set_float32_matmul_precision: expected 'highest', 'high' or 'medium', got {precision!r}. 'high' allows TF32."
        )
    _precision = precision
    _allowed["matmul"] = precision != "highest"


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` chose.

    Returns:
        A text.

    >>> dynograd.get_float32_matmul_precision()
    'highest'
    """
    return _precision
