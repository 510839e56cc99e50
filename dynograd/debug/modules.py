"""Which modules a thread is in while it runs."""

from __future__ import annotations

import threading
import weakref
from typing import Any

from dynograd.nn import Module, hooks

__all__ = ["ModuleStack", "path_of"]


class ModuleStack:
    """The modules whose forward runs on the thread that turned it on, outermost first, as weak references.

    `roots` are those that the program itself has called.
    """

    def __init__(self) -> None:
        self.open: list[weakref.ref[Module]] = []
        self.roots: weakref.WeakSet[Module] = weakref.WeakSet()
        self._handles: list[Any] = []
        self._thread = 0

    def turn_on(self) -> None:
        self._thread = threading.get_ident()
        self._handles = [
            hooks.register_module_forward_pre_hook(self._enter),
            hooks.register_module_forward_hook(self._leave, always_call=True),
        ]

    def turn_off(self) -> None:
        for handle in self._handles:
            handle.remove()
        self.open.clear()

    def _enter(self, module: Module, _: Any) -> None:
        if threading.get_ident() == self._thread:
            if not self.open:
                self.roots.add(module)
            self.open.append(weakref.ref(module))

    def _leave(self, *_: Any) -> None:
        if threading.get_ident() == self._thread and self.open:
            self.open.pop()


def path_of(modules: tuple[weakref.ref[Module], ...]) -> tuple[str, str]:
    """(class of the outermost module, path of the innermost one in it): ("Model", "encoder.0"); empty where none is left."""
    alive = [module for module in (reference() for reference in modules) if module is not None]
    if not alive:
        return "", ""
    outermost, innermost = alive[0], alive[-1]
    name = next((name for name, module in outermost.named_modules() if module is innermost), "")
    return type(outermost if name else innermost).__name__, name
