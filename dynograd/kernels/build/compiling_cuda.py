"""GPU kernels to machine code: Triton and numba-cuda used as compilers only. Needs no GPU, no CUDA toolkit and no C compiler.

A `Binary` is what a launch needs: the cubin, its entry, threads and shared memory of a block. Binaries lie in the kernel cache by
what their code depends on (`kernel_cache`), so that the second process compiles nothing.

Types are Triton's words: `*fp32 *bf16 *fp16 *fp64 *i1 *i64 ...` for pointers, `i32 i64 fp32 fp64 i1` for numbers; for numba-cuda
also `[]fp32 ...`, a one-dimensional array of its own kind.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from dynograd.errors import KernelCompileError
from dynograd.kernels.build import kernel_cache

SCRATCH_WORDS = 2  # the pointers to scratch memory that Triton adds after a kernel's own arguments
ARRAY_WORDS = 7  # what numba-cuda makes of a one-dimensional array: two nulls, size, item size, pointer, size, stride

_ABI = "4"  # raise it when what a Binary holds changes
_lock = threading.RLock()  # Triton's settings are global


class Binary(NamedTuple):
    """A compiled kernel."""

    cubin: bytes
    entry: str
    threads: int  # of a block; 0: whatever the caller likes
    shared: int  # bytes of a block
    scratch: int  # bytes of scratch memory for each program
    scratch_alignment: int
    cluster: int  # blocks of a cluster
    registers: int  # of a thread
    spills: int  # bytes stored or loaded because there were too few registers


def target_name(capability: tuple[int, int]) -> str:
    """
    >>> target_name((9, 0))
    'sm_90'
    """
    return f"sm_{capability[0]}{capability[1]}"


def compile_triton(
    function: Any,
    types: dict[str, str],
    aligned: frozenset[str],
    constants: dict[str, Any],
    num_warps: int,
    num_stages: int,
    capability: tuple[int, int],
    exact: bool = False,
) -> Binary:
    """A `triton.jit` function compiled for these types.

    Args:
        types: of the arguments that are passed at a launch, in order.
        aligned: the arguments that are multiples of 16.
        exact: products and sums are rounded one by one, not contracted.

    Raises:
        KernelCompileError: Triton or ptxas refuses it.
    """
    import triton

    signature = ", ".join(
        [f"{name}: {kind}" + (" /16" if name in aligned else "") for name, kind in types.items()]
        + [f"{name}={value}" for name, value in constants.items()]
        + [f"num_warps={num_warps}", f"num_stages={num_stages}"]
        + ["exact"] * exact
    )
    try:
        name = kernel_cache.digest_of(
            _ABI, triton.__version__, function.cache_key, signature, repr([type(constant) for constant in constants.values()]),
            target_name(capability),
        )  # fmt: skip
        binary = _read(name)
        if binary is None:
            with _lock, kernel_cache.compiling():
                binary = _through_triton(function, types, aligned, constants, num_warps, num_stages, capability, exact)
            _write(name, binary, function.__name__)
        return binary
    except Exception as error:
        raise _failed(function, signature, capability, error) from error


def compile_simt(function: Any, types: tuple[str, ...], threads: int, capability: tuple[int, int]) -> Binary:
    """A function in numba-cuda's language compiled for these argument types and for blocks of up to `threads` threads.

    Raises:
        KernelCompileError: numba-cuda or ptxas refuses it.
    """
    import numba_cuda

    from dynograd.kernels.build.compiling_numba import _stamp_of

    signature = f"{', '.join(types)}; {threads} threads"
    try:
        name = kernel_cache.digest_of(
            _ABI, numba_cuda.__version__, function.__qualname__, _stamp_of(function), signature, target_name(capability)
        )
        binary = _read(name)
        if binary is None:
            with _lock, kernel_cache.compiling():
                binary = _through_numba(function, types, threads, capability)
            _write(name, binary, function.__name__)
        return binary
    except Exception as error:
        raise _failed(function, signature, capability, error) from error


def _failed(function: Any, signature: str, capability: tuple[int, int], error: Exception) -> KernelCompileError:
    if isinstance(error, KernelCompileError):
        return error
    text = str(error).strip() or type(error).__name__
    return KernelCompileError(
        f"{function.__module__}.{function.__name__}({signature}): does not compile for {target_name(capability)}.\n{text}"
    )


# --- the cache ---------------------------------------------------------------------------------------------------------------


def _read(name: str) -> Binary | None:
    payload = kernel_cache.read(name)
    if payload is None:
        return None
    try:
        head, _, cubin = payload.partition(b"\n")
        return Binary(cubin, *json.loads(head))
    except (TypeError, ValueError):  # of another version
        kernel_cache.discard(name)
        return None


def _write(name: str, binary: Binary, kernel: str) -> None:
    kernel_cache.note_compiled(kernel)
    kernel_cache.write(name, json.dumps(binary[1:]).encode() + b"\n" + binary.cubin)


# --- Triton ------------------------------------------------------------------------------------------------------------------


def _through_triton(
    function: Any,
    types: dict[str, str],
    aligned: frozenset[str],
    constants: dict[str, Any],
    num_warps: int,
    num_stages: int,
    capability: tuple[int, int],
    exact: bool,
) -> Binary:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    places = {name: place for place, name in enumerate(function.arg_names)}
    source = ASTSource(
        function,
        {name: types.get(name, "constexpr") for name in function.arg_names},
        {(places[name],): value for name, value in constants.items()},
        {(places[name],): [["tt.divisibility", 16]] for name in aligned},
    )
    options = {"num_warps": num_warps, "num_stages": num_stages, "enable_fp_fusion": not exact}
    target = GPUTarget("cuda", capability[0] * 10 + capability[1], 32)
    said: list[str] = []
    with _quiet_triton(said):
        try:
            binary = triton.compile(source, target=target, options=options)
        except Exception as error:
            notes = "\n".join(said)
            if notes and notes not in str(error):
                raise _Refused(f"{error}\n{notes}") from error
            raise
    facts = binary.metadata
    _check_parameters(binary.asm["ptx"], facts.name, len(types) + SCRATCH_WORDS)
    if getattr(facts, "profile_scratch_size", 0) or getattr(facts, "launch_cooperative_grid", False):
        raise _Refused("kernels with a profile or a cooperative grid are not supported")
    registers, spills = _resources("\n".join(said))
    cluster = getattr(facts, "num_ctas", 1)
    return Binary(
        binary.asm["cubin"], facts.name, facts.num_warps * 32, facts.shared, facts.global_scratch_size,
        facts.global_scratch_align, cluster, registers, spills,
    )  # fmt: skip


class _Refused(Exception):
    """What the compiler said; `KernelCompileError` adds which kernel it was."""


@contextlib.contextmanager
def _quiet_triton(said: list[str]) -> Iterator[None]:
    """Triton writes its own cache into a folder that goes away, and what it prints (ptxas's report) into `said`."""
    from triton import knobs
    from triton.backends.nvidia import compiler

    with tempfile.TemporaryDirectory(prefix="dynograd") as folder, knobs.cache.scope(), knobs.nvidia.scope():
        knobs.cache.dir = folder
        knobs.nvidia.dump_ptxas_log = True
        compiler.print = lambda *words, **_: said.append(" ".join(map(str, words)))  # its module's name for print
        try:
            yield
        finally:
            del compiler.print


# --- numba-cuda --------------------------------------------------------------------------------------------------------------


def _through_numba(function: Any, types: tuple[str, ...], threads: int, capability: tuple[int, int]) -> Binary:
    from dynograd.kernels.build.simt_language import cuda

    with _device_functions_for(capability):
        ptx, _ = cuda.compile(
            function, tuple(map(_numba_type, types)), cc=capability, device=False, abi="numba", output="ptx",
            launch_bounds=threads,
        )  # fmt: skip
    entry = re.search(r"\.entry\s+(\w+)\s*\(", ptx)
    if entry is None:
        raise _Refused("its PTX has no entry")
    _check_parameters(ptx, entry[1], sum([ARRAY_WORDS if kind[0] == "[" else 1 for kind in types]))
    cubin, report = _assemble(ptx, capability)
    registers, spills = _resources(report)
    return Binary(cubin, entry[1], 0, 0, 0, 1, 1, registers, spills)


@contextlib.contextmanager
def _device_functions_for(capability: tuple[int, int]) -> Iterator[None]:
    """numba-cuda compiles device functions for the GPU of its own context, which there is none of: it is told of another."""
    from types import SimpleNamespace

    from numba.cuda import dispatcher

    asked = dispatcher.get_current_device
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=capability)
    try:
        yield
    finally:
        dispatcher.get_current_device = asked


def _numba_type(kind: str) -> Any:
    from numba import types

    names = {"fp16": "float16", "fp32": "float32", "fp64": "float64", "i1": "uint8", "u1": "uint8"}
    base = kind.lstrip("*[]")
    if base == "bf16":  # numba-cuda's bfloat16 is C++ that NVRTC would have to compile and link
        raise _Refused("kernels for numba-cuda take no bfloat16: cast to float32 before, or move bits as int16")
    plain = getattr(types, names.get(base) or base.replace("i", "int").replace("u", "uint"))
    return types.CPointer(plain) if kind[0] == "*" else types.Array(plain, 1, "C") if kind[0] == "[" else plain


def _assemble(ptx: str, capability: tuple[int, int]) -> tuple[bytes, str]:
    """(cubin, ptxas's report), by the ptxas in Triton's wheel."""
    from triton.backends.nvidia.compiler import get_ptxas, ptx_get_version

    tool = get_ptxas(capability[0] * 10 + capability[1])
    newest = ptx_get_version(tool.version)
    written = re.search(r"\.version\s+(\d+)\.(\d+)", ptx)
    if written is not None and int(written[1]) * 10 + int(written[2]) > newest:
        # NVVM stamps its own release on instructions that older ptxas know as well; what it does not know it refuses.
        ptx = ptx.replace(written[0], f".version {newest // 10}.{newest % 10}", 1)
    with tempfile.TemporaryDirectory(prefix="dynograd") as folder:
        source, target = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        command = [tool.path, "-v", f"--gpu-name={target_name(capability)}", str(source), "-o", str(target)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise _Refused(f"ptxas: {done.stderr.strip()}")
        return target.read_bytes(), done.stderr


# --- what both say ------------------------------------------------------------------------------------------------------------


def _check_parameters(ptx: str, entry: str, expected: int) -> None:
    """The launch fills as many words as the machine code reads; that Triton adds two is its private matter, so it is checked."""
    head = re.search(rf"\.entry\s+{re.escape(entry)}\s*\((.*?)\)", ptx, re.DOTALL)
    count = len(re.findall(r"\.param\b", head[1])) if head is not None else -1
    if count != expected:
        raise _Refused(
            f"its machine code reads {count} parameters where {expected} are passed: "
            f"this release of the compiler ({_versions()}) is not supported."
        )


def _versions() -> str:
    versions = [f"{name} {sys.modules[name].__version__}" for name in ("triton", "numba_cuda") if name in sys.modules]
    return ", ".join(versions)


def _resources(report: str) -> tuple[int, int]:
    """(registers, bytes of spill stores and loads) from what `ptxas -v` prints."""
    registers = [int(text) for text in re.findall(r"Used (\d+) registers", report)]
    spills = [int(text) for text in re.findall(r"(\d+) bytes spill (?:stores|loads)", report)]
    return max(registers, default=0), sum(spills)
