"""`torch.fx.experimental.proxy_tensor`: no program is traced below its ops here; `fx.symbolic_trace` traces what it calls."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["get_proxy_mode", "make_fx"]


def get_proxy_mode() -> None:
    """None: no such trace is going on."""
    return None


def make_fx(f: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise NotImplementedError(
        "make_fx: programs are not traced below their ops. fx.symbolic_trace(f) gives the graph of what f calls."
    )
