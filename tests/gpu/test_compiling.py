"""Every variant of every GPU kernel compiles for three generations of cards, without spilling more than it says it may."""

import inspect

import pytest

from dynograd.base import cache_files
from dynograd.cuda import driver
from dynograd.errors import KernelCompileError
from dynograd.kernels.build import kernel_cache
from tests.support import kernel_variants
from tests.support.kernel_variants import TARGETS, complaint, kernels_of

triton = pytest.importorskip("triton", reason="triton is not installed")
pytest.importorskip("numba_cuda", reason="numba-cuda is not installed")
pytestmark = pytest.mark.skipif(driver.is_emulated(), reason="in emulation the compilers are interpreters")


WHOLE = (9, 0)  # for this target every variant is compiled, in so many parts that several processes can share the work
PARTS = 4


@pytest.mark.slow
@pytest.mark.parametrize(
    "target, part", [(target, part) for target in TARGETS for part in range(PARTS if target == WHOLE else 1)], ids=str
)
@pytest.mark.parametrize("module", kernel_variants.modules())
def test_variants_compile_within_their_budgets(module, target, part, gpu_kernels_seen):
    """For the other targets, one variant of each kernel, and of those made of formulas every tenth."""
    wrong = []
    pairs = kernels_of(module)
    if target == WHOLE:
        pairs = pairs[part::PARTS]
    else:
        pairs = list({id(kernel): (kernel, variant) for kernel, variant in reversed(pairs)}.values())
        pairs = pairs[:: 10 if len(pairs) > 100 else 1]
    for kernel, variant in pairs:
        said = complaint(kernel, variant, target)
        if said:
            wrong.append(said)
        elif variant.get("capability", TARGETS[0]) <= target:
            gpu_kernels_seen["compiled"].add((kernel.title, str(variant), target))
    assert not wrong, "\n".join(wrong)


# Neighbours of a compiled step, as its graphs have them: results, and gradients of what they read.
GROUPS = {
    "forward": ("tanh(x * w + b)", "gelu(tanh(x * w + b) * c0 - w)", "where(truth, tanh(x), x * c1)"),
    "backward": (
        "g * sigmoid(y) * (1 - sigmoid(y)) + g * where(y < c0, y, 0)",
        "(g * sigmoid(y) + silu(y)) * (1 - square(tanh(x)))",
        "log1p(exp(x)) - lgamma(y)",
    ),
}


@pytest.mark.parametrize("rank", [0, 3])
@pytest.mark.parametrize("name", GROUPS)
def test_loops_of_neighbours_compile_within_their_budgets(name, rank, gpu_kernels_seen):
    """One loop for formulas of several ops, flat and through strides, in float32 and float64."""
    import numpy

    from dynograd.interpreter import fusion
    from dynograd.kernels.elementwise.loops_cuda import CudaLoop
    from dynograd.kernels.formula import formulas

    trees = tuple([fusion.expression(text) for text in GROUPS[name]])
    used = sorted(formulas.names_in(*trees))
    operands = tuple([element for element in used if not element.startswith("c")])
    statics = tuple([element for element in used if element.startswith("c")])
    for kind in ("float32", "float64"):
        loop = CudaLoop(f"group_{name}", operands, statics, trees, frozenset({"truth"} & set(used)))
        entry, variant = loop.to_check(numpy.dtype(kind), numpy.dtype(kind), rank)
        for target in TARGETS:
            assert not complaint(entry.kernel, variant, target)
            gpu_kernels_seen["compiled"].add((entry.kernel.title, str(variant), target))


def test_modules_with_kernels_are_found():
    result = kernel_variants.modules()
    named = [path.stem for path in kernel_variants.FOLDER.rglob("*_simt.py") if "simt_kernel" in path.read_text()]
    assert named
    assert set(named) <= set(result)
    assert len(result) >= 5


# --- what compiling says and keeps -------------------------------------------------------------------------------------------


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """Kernels in a file, as Triton wants them, and a kernel cache of their own."""
    import importlib.util

    monkeypatch.setenv("DYNOGRAD_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "some_kernels.py"
    path.write_text(inspect.cleandoc(_KERNELS))
    spec = importlib.util.spec_from_file_location("some_kernels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_KERNELS = """
    import triton
    import triton.language as tl
    from numba import float32

    from dynograd.kernels.build.simt_language import cuda
    from dynograd.kernels.build.launching_cuda import simt_kernel, triton_kernel

    @triton_kernel(variants=[])
    def scaled(x, y, count, factor, BLOCK: tl.constexpr):
        place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + place, tl.load(x + place, mask=place < count).to(tl.float32) * factor, mask=place < count)

    @triton_kernel(variants=[])
    def wrong(x, y, BLOCK: tl.constexpr):
        tl.store(y, tl.load(x) @ 3)

    @triton_kernel(variants=[])
    def hungry(x, y, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        first, other = tl.load(x + i), tl.load(y + i)
        tl.debug_barrier()
        tl.store(y + i, first * other)
        tl.debug_barrier()
        tl.store(x + i, first + other)

    @simt_kernel(variants=[], arrays=("y",))
    def added(x, y, count):
        shared = cuda.shared.array(128, float32)
        i = cuda.grid(1)
        shared[cuda.threadIdx.x] = x[i] if i < count else 0
        cuda.syncthreads()
        if i < count:
            cuda.atomic.add(y, 0, shared[127 - cuda.threadIdx.x])

    @simt_kernel(variants=[])
    def wrong_simt(x, count):
        x[0] = count.name
"""


def test_a_binary_has_what_a_launch_needs(kernels):
    types = dict(x="*bf16", y="*fp32", count="i32", factor="fp32")
    constants = dict(BLOCK=256, num_warps=2, num_stages=3)
    result = kernels.scaled.kernel.compiled(types, frozenset("xy"), constants, (9, 0))
    assert result.cubin[:4] == b"\x7fELF"
    assert (result.entry, result.threads, result.scratch, result.spills) == ("scaled", 64, 0, 0)
    assert result.registers > 0


def test_simt_kernels_become_binaries(kernels):
    types = dict(x="*fp32", y="[]fp32", count="i64")
    result = kernels.added.kernel.compiled(types, frozenset(), dict(threads=128), (9, 0))
    assert result.cubin[:4] == b"\x7fELF" and "added" in result.entry and result.registers > 0


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_the_second_time_nothing_is_compiled(kernels, target):
    def both():
        types = dict(x="*fp16", y="*fp64", count="i32", factor="fp64")
        first = kernels.scaled.kernel.compiled(types, frozenset(), dict(BLOCK=128, num_warps=4, num_stages=3), target)
        types = dict(x="*i32", y="[]fp32", count="i32")
        return first, kernels.added.kernel.compiled(types, frozenset(), dict(threads=64), target)

    before = kernel_cache.statistics()["compiled"]
    first = both()
    assert kernel_cache.statistics()["compiled"] == before + 2
    assert both() == first
    assert kernel_cache.statistics()["compiled"] == before + 2


def test_a_damaged_entry_is_compiled_again(kernels):
    types = dict(x="*fp32", y="*fp32", count="i32", factor="fp32")
    arguments = (types, frozenset(), dict(BLOCK=128, num_warps=4, num_stages=3), (9, 0))
    first = kernels.scaled.kernel.compiled(*arguments)
    (entry,) = kernel_cache.folder().glob("*.kernel")
    entry.write_bytes(entry.read_bytes()[:-7])
    assert kernels.scaled.kernel.compiled(*arguments) == first
    kernel_cache.write(entry.stem, b"neither json\nnor a cubin")
    assert kernels.scaled.kernel.compiled(*arguments) == first


def test_a_full_disk_costs_the_entry_only(kernels, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache_files, "replace", full)
    types = dict(x="*fp32", y="*fp32", count="i32", factor="fp32")
    monkeypatch.setattr(cache_files, "_full", set())
    with pytest.warns(UserWarning, match=r"nothing can be kept in .* \(No space left on device\)"):
        for _ in range(2):
            result = kernels.scaled.kernel.compiled(
                types, frozenset(), dict(BLOCK=64, num_warps=1, num_stages=3), (9, 0)
            )
            assert result.threads == 32
    assert not list(kernel_cache.folder().glob("*"))


def test_tritons_own_cache_stays_empty(kernels, tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    types = dict(x="*fp32", y="*fp32", count="i32", factor="fp32")
    kernels.scaled.kernel.compiled(types, frozenset(), dict(BLOCK=32, num_warps=1, num_stages=3), (9, 0))
    assert not list((tmp_path / "triton").glob("**/*.cubin"))


def test_what_does_not_compile_is_named_with_signature_and_target(kernels):
    types = dict(x="*fp32", y="*fp32")
    with pytest.raises(
        KernelCompileError, match=r"some_kernels\.wrong\(x: \*fp32 /16, y: \*fp32, BLOCK=8.*sm_90(.|\n)*@ 3"
    ):
        kernels.wrong.kernel.compiled(types, frozenset("x"), dict(BLOCK=8, num_warps=4, num_stages=3), (9, 0))
    with pytest.raises(
        KernelCompileError, match=r"some_kernels\.wrong_simt\(\*fp32, i32; 32 threads\).*sm_80(.|\n)*name"
    ):
        kernels.wrong_simt.kernel.compiled(dict(x="*fp32", count="i32"), frozenset(), dict(threads=32), (8, 0))
    with pytest.raises(KernelCompileError, match="take no bfloat16"):
        kernels.added.kernel.compiled(dict(x="*bf16", y="[]fp32", count="i32"), frozenset(), dict(threads=32), (8, 0))


def test_a_change_of_the_compilers_calling_convention_is_noticed(kernels, monkeypatch):
    from dynograd.kernels.build import compiling_cuda

    monkeypatch.setattr(compiling_cuda, "SCRATCH_WORDS", 3)
    types = dict(x="*fp32", y="*fp32", count="i32", factor="fp32")
    with pytest.raises(KernelCompileError, match=r"reads 6 parameters where 7 are passed.*triton"):
        kernels.scaled.kernel.compiled(types, frozenset(), dict(BLOCK=512, num_warps=1, num_stages=3), (9, 0))


@pytest.mark.parametrize(
    "kernel, variant, said",
    [
        ("scaled", None, "has no variants"),
        ("scaled", dict(x="*fp32"), r"missing \['y', 'count', 'factor'\]"),
        ("scaled", dict(x="*fp32", y="*fp32", count="i32", factor="fp32", BLOK=3), r"unknown \['BLOK'\]"),
        ("scaled", dict(x="*fp32", y="*fp32", count="*i32", factor="fp32", BLOCK=64), "does not compile"),
        ("hungry", dict(x="*fp32", y="*fp32", BLOCK=65536, num_warps=32), r"bytes of spills where 0 are allowed"),
        ("scaled", dict(x="*fp32", y="*fp32", count="i32", factor="fp32", BLOCK=64), "^$"),
        ("wrong", dict(x="*fp32", y="*fp32", BLOCK=64, capability=(10, 0)), "^$"),
    ],
)
def test_the_check_complains(kernels, kernel, variant, said):
    import re

    assert re.search(said, complaint(getattr(kernels, kernel).kernel, variant, (9, 0)))
