"""`torch.library` refuses: operators are not registered with a dispatcher; `autograd.Function` is the way to write one."""

from __future__ import annotations

from typing import Any

__all__ = ["Library", "custom_op", "define", "impl", "register_autograd", "register_fake"]


def _refusal(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        asked = f" (asked for {args[0]!r})" if args else ""
        raise NotImplementedError(
            f"library.{name}: there is no dispatcher to register operators with{asked}. "
            f"Write an autograd.Function with forward and backward and call its apply."
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Refuses; write an `autograd.Function`."
    return refuse


Library, custom_op, define, impl, register_autograd, register_fake = (
    _refusal(name) for name in ("Library", "custom_op", "define", "impl", "register_autograd", "register_fake")
)
