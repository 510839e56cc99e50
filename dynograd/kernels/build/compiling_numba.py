"""How kernels are compiled: `compiled` for functions on arrays, `chunked` for those that may run in parts on several threads.

Both cache machine code on disk by source text (`kernel_cache`). Numba is used as a compiler through a few of its internals
(the flag that promises LLVM that arrays do not overlap, the interface of its cache, and what `pipeline_numba` takes);
`tests/kernels/test_compiling.py` and `test_pipeline.py` pin them. Where a Numba lacks them, kernels are compiled by plain `njit`:
slower code, the same results. Importing this loads Numba.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import logging
import pickle
import sys
import warnings
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from dynograd.base.garbage import uncollected

with uncollected():  # to collect among what Numba makes takes as long as half of importing it
    import llvmlite
    import numba
    from numba import _dynfunc, njit
    from numba.core import compiler, dispatcher, event, registry, serialize, sigutils

    from dynograd.base.generated_sources import run_source
    from dynograd.errors import KernelCompileError, user_level
    from dynograd.kernels.build import blas, drivers_numba, kernel_cache, targets_numba, threads
    from dynograd.kernels.build.notices import notices
    from dynograd.kernels.build.processors import processor

# What LLVM may do beyond IEEE 754. Formulas of elementwise ops: nothing, so that large arrays have the bits of small ones. The
# functions they call: round a product and a sum once. Sums and rows: add in another order, and take the reciprocal of what divides
# a whole row. Never "nnan" or "ninf" (masks of -inf, NaN inputs), "nsz" (signs of zeros) or "afn" (estimates that are NaN at 0,
# infinity and denormal numbers, as those of "arcp" are). error_model="numpy" lets divisions vectorise.
IN_ORDER = frozenset({"contract"})
REASSOCIATED = IN_ORDER | {"reassoc", "arcp"}
_ESTIMATES = IN_ORDER | {"arcp", "afn"}

# How `njit` and `overload` are told to compile by our pipeline; nothing where this Numba lacks an internal that it takes.
PIPELINE: Any = {}
_CHUNKED_PIPELINE: Any = {}
PIPELINE_STAMP = ""
try:
    with uncollected():
        from dynograd.kernels.build import pipeline_numba
except (ImportError, AttributeError) as error:
    warnings.warn(
        f"dynograd: Numba {numba.__version__} lacks what kernels are compiled by ({error}). Compiling takes twice as long, and kernels run in one "
        f"thread. Install a Numba from 0.62 to 0.68.",
        UserWarning,
        stacklevel=user_level(),
    )
else:
    PIPELINE["pipeline_class"] = pipeline_numba.KernelCompiler
    _CHUNKED_PIPELINE["pipeline_class"] = pipeline_numba.ChunkedCompiler
    targets_numba.HELPER_OPTIONS.update(PIPELINE)
    PIPELINE_STAMP = kernel_cache.digest_of(*map(inspect.getsource, (pipeline_numba, drivers_numba)))

# In a program that logs everything, Numba would tell of each step of a compilation, which takes longer than compiling does.
_logger = logging.getLogger("numba")
if _logger.level == logging.NOTSET:
    _logger.setLevel(logging.WARNING)

# Calls a compiled function whatever `launches.noting` has put into its class.
call_unnoted: Any = registry.CPUDispatcher.__call__

_TWO_GRAINS = 2 * threads.GRAIN
_ANNOTATION = 6  # its place in a reduced `CompileResult`
# Machine code is the same for every Python and NumPy, but for the size of the head of a Python object.
_VERSIONS = f"{numba.__version__} {llvmlite.__version__} {_dynfunc._impl_info['offsetof_env_body']}"


def compiled(
    function: Callable[..., Any] | None = None,
    *,
    noalias: bool = False,
    in_order: bool = False,
    exact: bool = False,
    estimates: bool = False,
    inline: bool = False,
    nogil: bool = True,
    chunk: bool = False,
    key: str = "",
) -> Any:
    """Compiles a function on arrays when it is first called with their types; cached on disk.

    Args:
        noalias: no array that is written overlaps another argument. Loops over many arrays vectorise only with this promise;
            an array that is changed in place is then passed once.
        in_order: sums and differences are computed as written (`reassoc` off).
        exact: every operation is rounded as written, as NumPy does (no fused multiply-add either).
        estimates: reciprocals and roots may be refined estimates, which are NaN at the edges: for helpers whose callers see to these.
        inline: helpers that must become part of their callers' loops.
        nogil: other Python threads may go on meanwhile.
        chunk: its last arguments are `start` and `stop`, and Python may have its parts run in the pool: for `chunked`.
        key: what else the machine code depends on, where `function` has values in its closure.
    """
    if function is None:
        return lambda decorated: compiled(
            decorated,
            noalias=noalias,
            in_order=in_order,
            exact=exact,
            estimates=estimates,
            inline=inline,
            nogil=nogil,
            chunk=chunk,
            key=key,
        )
    flags = _ESTIMATES if estimates else IN_ORDER if in_order else REASSOCIATED
    options: dict[str, Any] = {
        "error_model": "numpy",
        "fastmath": False if exact else set(flags),
        "nogil": nogil,
    }
    if inline:
        options["forceinline"] = True
    options |= _CHUNKED_PIPELINE if chunk else PIPELINE
    kernel = njit(**options, _target=targets_numba.NAME)(function)
    _attach(
        kernel,
        noalias,
        f"{noalias} {'exact' if exact else sorted(flags)} {inline} {chunk} {key} {PIPELINE_STAMP}"
        + " gil" * (not nogil),
    )
    return kernel


def chunked(
    function: Callable[..., None] | None = None,
    *,
    noalias: bool = False,
    exact: bool = False,
    blas: bool = False,
    key: str = "",
) -> Any:
    """Makes a kernel `f(..., start, stop)` that handles the items start to stop of its arrays into a `Chunked`.

    Items must be independent: no item writes what another one reads or writes. See `compiled` for the options; `blas=True` for
    kernels that call `blas_numba.gemm`, so that BLAS adds no threads of its own.
    """
    if function is None:
        return lambda decorated: Chunked(decorated, noalias=noalias, exact=exact, blas=blas, key=key)
    return Chunked(function, noalias=noalias, exact=exact, blas=blas, key=key)


class Chunked:
    """A kernel over `count` items, run in one piece or in one part per thread: `kernel(x, y, count=rows, work=x.size)`.

    `work` is what decides (see `threads.parts`): about the number of simple elementwise operations. Below `threads.GRAIN` of them no other
    Python thread runs meanwhile. `kernel.serial` is the
    compiled function itself, for calls from other compiled code or with parts of one's own: `serial(x, y, 0, rows)`.
    """

    __slots__ = ("at_once", "name", "needs_blas", "serial", "splits")

    def __init__(
        self,
        function: Callable[..., None],
        *,
        noalias: bool = False,
        exact: bool = False,
        blas: bool = False,
        key: str = "",
    ) -> None:
        self.name = function.__name__
        self.serial = compiled(function, noalias=noalias, exact=exact, chunk=True, key=key)
        self.serial.dynograd_chunked = self
        self.splits = _splits(self.serial)
        self.at_once = drivers_numba.AT_ONCE if self.splits else 0
        self.needs_blas = blas

    def __call__(self, *arguments: Any, count: int, work: int, parts: int = 0) -> None:
        """Handles the items 0 to `count`; `parts` cuts them so instead of by `work` (the caller knows better)."""
        start = 0
        if not parts:
            if work < threads.GRAIN:
                parts, start = 1, self.at_once
            else:
                parts = 1 if work < _TWO_GRAINS else threads.parts(work)
        if parts > count:
            parts = count
        if self.needs_blas:
            with blas.one_thread:
                self._run(arguments, count, parts)
        elif parts <= 1:
            self.serial(*arguments, start, count)
        else:
            self._run(arguments, count, parts)

    def _run(self, arguments: tuple[Any, ...], count: int, parts: int) -> None:
        num_threads = drivers_numba.pool_threads() if parts > 1 and self.splits else 0
        if num_threads <= 1:
            self.serial(*arguments, 0, count)
            return
        start = drivers_numba.in_parts(parts, num_threads if num_threads < parts else parts)
        turn = drivers_numba.turns
        if turn is None:
            self.serial(*arguments, start, count)
        else:
            with turn:
                self.serial(*arguments, start, count)

    def __repr__(self) -> str:
        return f"<chunked kernel {self.name}>"


def compile_source(source: str, name: str, names: dict[str, Any] | None = None, **options: Any) -> Any:
    """The function `name` of a generated source text, compiled; `names` are its globals, described by `key` where they vary.

    Tracebacks and debuggers find the text under `<dynograd kernel NAME>`.
    """
    title = f"kernel {name} {hashlib.sha256(source.encode()).hexdigest()[:8]}"
    function = run_source(source, title, dict(names or {}, __name__=__name__))[name]
    function.dynograd_source = source
    chunk = options.pop("chunk", False)
    return (chunked if chunk else compiled)(function, **options)


# --- the cache ---------------------------------------------------------------------------------------------------------------


class _KernelCache:
    """What a Numba dispatcher asks of its cache, answered from `kernel_cache`."""

    def __init__(
        self, function: Callable[..., Any], options: str, compile_again: Callable[..., Any] | None = None
    ) -> None:
        self._function, self._options, self._compile_again, self._stamp = function, options, compile_again, ""

    @property
    def cache_path(self) -> str:
        return str(kernel_cache.folder() or "")

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        name = self._name(signature, target_context.codegen())
        kernel_cache.note_used(name, targets_numba.compiles_for_another())
        for _ in range(2):  # in a pack, and in the folder
            payload = kernel_cache.read_packed(name, processor().name, numba.__version__)
            if payload is None:
                break
            targets_numba.prepare_to_load()
            try:
                machine_code, bitcode = kernel_cache.parted(payload)
                result = compiler.CompileResult._rebuild(target_context, *pickle.loads(machine_code))
            except Exception:  # an entry of another build of the same versions, say
                kernel_cache.discard(name)
                continue
            result.library.bitcode = bitcode
            if self._compile_again is not None:
                result.library.compile_again = partial(self._compile_again, *sigutils.normalize_signature(signature))
            return result
        if kernel_cache.only_kept():
            raise KernelCompileError(
                f"the kernel {self._function.__name__} of {signature} for {processor().name} is neither in a pack nor in the cache, and is not to be "
                f"compiled here. Call the program where it may be, at this size, and save_kernels(folder) makes a pack."
            )
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        kernel_cache.note_compiled(self._function.__name__)
        if result.library.has_dynamic_globals or any(not lifted.can_cache for lifted in result.lifted):
            return
        fields = list(result._reduce())
        fields[_ANNOTATION] = ""  # its types in words, as many bytes as the machine code
        payload = kernel_cache.joined(serialize.dumps(tuple(fields)), result.library.serialize_for_linking())
        kernel_cache.write(self._name(signature, result.codegen), payload)

    def enable(self) -> None: ...

    def disable(self) -> None: ...

    def flush(self) -> None: ...

    def _name(self, signature: Any, codegen: Any) -> str:
        self._stamp = self._stamp or _stamp_of(self._function)
        parts = (self._function.__qualname__, str(signature), self._options, self._stamp, _VERSIONS)
        checked = ["checks every index"] if numba.config.BOUNDSCHECK else []
        vectors = ["short vector mathematics"] if numba.config.USING_SVML else []
        return kernel_cache.digest_of(*parts, repr(codegen.magic_tuple()), *checked, *vectors)


class _Compilations(event.Listener):
    """Hears of everything that Numba compiles, and says of our kernels when it begins and when it has ended."""

    def on_start(self, event: Any) -> None:
        if _is_ours(event):
            notices.begin(kernel_cache.keeps())

    def on_end(self, event: Any) -> None:
        if _is_ours(event):
            notices.end()


def _is_ours(event: Any) -> bool:
    return hasattr((event.data or {}).get("dispatcher"), "dynograd_key")


event.register("numba:compile", _Compilations())


def _attach(kernel: Any, noalias: bool, options: str) -> None:
    """Gives a dispatcher our cache and flags; it stays a plain one where this Numba has no place for them."""
    kernel.dynograd_key = options
    try:
        if PIPELINE:
            pipeline_numba.adopt(kernel)
        if noalias:
            inner = kernel._compiler
            kernel._compiler = _NoAliasCompiler(
                inner.py_func, inner.targetdescr, inner.targetoptions, inner.locals, inner.pipeline_class
            )
        kernel._cache = _KernelCache(kernel.py_func, options, kernel._compiler.compile)
    except (AttributeError, TypeError):
        pass


def _splits(kernel: Any) -> bool:
    """Whether Python may tell the kernel to run in parts; not where nothing is compiled, as in a debugger."""
    chosen = getattr(getattr(kernel, "_compiler", None), "pipeline_class", None)
    return bool(_CHUNKED_PIPELINE) and chosen is _CHUNKED_PIPELINE["pipeline_class"]


class _NoAliasCompiler(getattr(dispatcher, "_FunctionCompiler", object)):  # type: ignore[misc]
    def _customize_flags(self, flags: Any) -> Any:
        flags.noalias = True
        return flags


def _stamp_of(function: Callable[..., Any]) -> str:
    """A digest of the texts that the function's machine code is made from: its module's and those of the kernel modules it uses."""
    source = getattr(function, "dynograd_source", None)
    if source is not None:
        used = [value for value in function.__globals__.values() if hasattr(value, "py_func")]
        return kernel_cache.digest_of(
            source, *sorted(_stamp_of_helper(value.py_func) for value in used if value is not function)
        )
    texts: dict[str, str] = {}
    module = sys.modules.get(function.__module__)
    if module is not None:
        texts[module.__name__] = _text_of(module)
        _collect_used(module, texts)
    return kernel_cache.digest_of(_code_of(function), *(text for _, text in sorted(texts.items())))


@functools.lru_cache(
    maxsize=512
)  # generated texts use the same few helpers, and reading the texts of modules takes a millisecond
def _stamp_of_helper(function: Callable[..., Any]) -> str:
    return _stamp_of(function)


def _collect(module: ModuleType | None, texts: dict[str, str]) -> None:
    """Adds the text of a kernel module and of those it uses."""
    if module is None or module.__name__ in texts or not module.__name__.startswith("dynograd.kernels"):
        return
    if module.__name__ == __name__:
        texts[module.__name__] = ""  # its own text decides no machine code but through the options
        return
    texts[module.__name__] = _text_of(module)
    _collect_used(module, texts)


def _collect_used(module: ModuleType, texts: dict[str, str]) -> None:
    """Adds the texts of the kernel modules whose functions the module has in its globals."""
    for value in list(vars(module).values()):
        inner = getattr(value, "py_func", value) if not isinstance(value, ModuleType) else value
        name = inner.__name__ if isinstance(inner, ModuleType) else getattr(inner, "__module__", None)
        if isinstance(name, str) and name.startswith("dynograd.kernels"):
            _collect(sys.modules.get(name), texts)


def _text_of(module: ModuleType) -> str:
    """Its source, and what it found when it was imported (`MACHINE`), where its machine code depends on that."""
    try:
        return inspect.getsource(module) + str(getattr(module, "MACHINE", ""))
    except (OSError, TypeError):  # typed in, say
        return module.__name__


def _code_of(function: Callable[..., Any]) -> str:
    """What tells a function from others of its name: its place in its module's text, or its code where it was typed in."""
    code = function.__code__
    module = sys.modules.get(function.__module__)
    if code.co_name != "<lambda>" and module is not None and getattr(module, "__file__", None) == code.co_filename:
        return f"line {code.co_firstlineno}"
    constants = [constant for constant in code.co_consts if not inspect.iscode(constant)]
    python = sys.implementation.cache_tag
    return f"{python} {code.co_code.hex()} {code.co_names} {code.co_varnames} {constants}"
