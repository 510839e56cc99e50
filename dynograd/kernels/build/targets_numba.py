"""The target that Numba compiles our kernels for: `processors.processor()` instead of this machine's exact one.

It is a kind of Numba's CPU target, with a code generator of its own beside the one of functions that the user compiles; those, and
Numba's settings, stay as they are. Importing this loads Numba.
"""

from __future__ import annotations

import copy
import gc
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

import llvmlite.binding
from numba.core import ccallback, codegen, decorators, funcdesc, registry, target_extension
from numba.core.cpu import CPUContext
from numba.core.runtime import _nrt_python
from numba.core.typing.context import Context

from dynograd.base import garbage
from dynograd.kernels.build.processors import Processor, processor

__all__ = ["HELPER_OPTIONS", "NAME", "KernelFunction", "compiles_for_another", "prepare_to_load", "symbols_of"]

NAME = "dynograd"


class KernelLibrary(codegen.JITCodeLibrary):
    """Machine code. Bitcode, from which functions that are compiled later take it in, is kept apart and may be missing."""

    bitcode = b""
    symbols: list[str] | None = None
    compile_again: Callable[[], Any] | None = None

    def serialize_using_object_code(self) -> tuple[str, str, tuple[bytes, list[str]]]:
        """Without the bitcode, but with the symbols that it would tell."""
        symbols = symbols_of(self._get_module_for_linking()) if self.symbols is None else self.symbols
        return self.name, "object", (self._get_compiled_object(), symbols)

    def serialize_for_linking(self) -> bytes:
        """The bitcode."""
        return self.bitcode or bytes(self._get_module_for_linking().as_bitcode())

    @classmethod
    def _unserialize(cls, generator: Any, state: Any) -> KernelLibrary:
        name, _, (code, symbols) = state
        library = generator.create_library(name)
        library.enable_object_caching()
        library._set_compiled_object(code)
        library._finalize_final_module()
        generator._engine._defined_symbols.update(symbols)
        return library

    def _get_module_for_linking(self) -> llvmlite.binding.ModuleRef:
        if self._shared_module is None and self.bitcode:
            self._shared_module = llvmlite.binding.parse_bitcode(self.bitcode)
        elif self._shared_module is None and self.compile_again is not None:
            self._shared_module = self.compile_again().library._get_module_for_linking()
        return super()._get_module_for_linking()


def symbols_of(module: llvmlite.binding.ModuleRef) -> list[str]:
    """The names of what the module defines."""
    values = (*module.functions, *module.global_variables)
    return [value.name for value in values if not value.is_declaration]


class _Codegen(codegen.JITCPUCodegen):
    """Numba's, told of another processor."""

    _library_class = KernelLibrary

    def __init__(self, chosen: Processor) -> None:
        self._processor = chosen
        super().__init__("dynograd.exec")

    def _get_host_cpu_name(self) -> str:
        return self._processor.cpu

    def _get_host_cpu_features(self) -> str:
        return self._processor.features


class _Target(target_extension.CPU):
    """What Numba has for its CPU target it has for this one too."""


class _Descriptor(registry.CPUTarget):
    """A view of the CPU target's tables. Functions of Numba's that our kernels call are compiled for us anew: the typing context is the key."""

    def __init__(self) -> None:
        super().__init__(NAME)
        self._context: CPUContext | None = None

    @property
    def target_context(self) -> CPUContext:
        if self._context is None:
            base = registry.cpu_target.target_context
            self._context = base.subtarget(
                _internal_codegen=_Codegen(processor()),
                typing_context=copy.copy(base.typing_context),
                mangler=_mangled,
                target_name=NAME,
                target=_Target,
            )
        return self._context

    @property
    def typing_context(self) -> Context:
        return self.target_context.typing_context


_descriptor = _Descriptor()


def _mangled(name: str, types: Any, *, abi_tags: Any = (), uid: Any = None) -> str:
    """Numba's name of a machine function, with a word of the process that compiles it.

    Numba counts functions in each process; kernels from several processes, of one name and types, would else have one name.
    """
    return funcdesc.default_mangler(name, types, abi_tags=abi_tags, uid=uid and f"{uid}_{_word_of(os.getpid())}")


@cache
def _word_of(process: int) -> str:
    return os.urandom(5).hex()


_depth = threading.local()


@contextmanager
def _compiling() -> Iterator[None]:
    """This thread compiles for our target: Numba asks for it while it chooses functions and while it writes their code."""
    _depth.value = getattr(_depth, "value", 0) + 1
    try:
        with target_extension.target_override(NAME), _no_garbage if _depth.value == 1 else nullcontext():
            yield
    finally:
        _depth.value -= 1


class _NoGarbage:
    """Python's collector of garbage rests meanwhile: it would look again and again at a million objects that compiling makes and keeps.

    After it they count as old, as if it had looked at them; once there are many, it looks at all.
    """

    def __init__(self) -> None:
        self._lock, self._within, self._was_on = threading.Lock(), 0, False

    def __enter__(self) -> None:
        with self._lock:
            if not self._within:
                self._was_on = gc.isenabled()
                gc.disable()
            self._within += 1

    def __exit__(self, *problem: object) -> None:
        is_due = False
        with self._lock:
            self._within -= 1
            if not self._within and self._was_on:
                is_due = garbage.age()
                gc.enable()
        if is_due:
            garbage.collect()


_no_garbage = _NoGarbage()


def compiles_for_another() -> bool:
    """Whether the kernel that this thread asks for is a part of one that it compiles."""
    return getattr(_depth, "value", 0) > 1


class _Dispatcher(registry.CPUDispatcher):
    targetdescr = _descriptor

    def compile(self, sig: Any) -> Callable[..., Any]:
        with _compiling():
            return super().compile(sig)


@cache
def prepare_to_load() -> None:
    """What kernels need that are loaded, not compiled: the functions of Numba's runtime, by name.

    To compile, Numba also imports all that it knows of (SciPy, if there is one), which takes as long as all the rest of loading.
    """
    for name, address in _nrt_python.c_helpers.items():
        llvmlite.binding.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)


class KernelFunction(ccallback.CFunc):
    """A C callback for our processor."""

    _targetdescr = _descriptor

    def compile(self) -> None:
        with _compiling():
            super().compile()


# How functions of Numba's own that our kernels call are compiled for our target, besides.
HELPER_OPTIONS: dict[str, Any] = {}


def _jit(*arguments: Any, **options: Any) -> Callable[..., Any]:
    return decorators.jit(*arguments, **{**HELPER_OPTIONS, **options, "_target": NAME})


target_extension.target_registry[NAME] = _Target
target_extension.dispatcher_registry[_Target] = _Dispatcher
target_extension.jit_registry[_Target] = _jit
