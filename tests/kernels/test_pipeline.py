"""How kernels are compiled: helpers as part of their callers, types of operators remembered, and the internals of Numba this takes."""

import inspect
import operator
import subprocess
import sys

import numpy as np
import pytest
from numba import types
from numba.core import codegen, compiler, errors, lowering, typed_passes, untyped_passes
from numba.core.registry import cpu_target

from dynograd.base import cache_files
from dynograd.kernels.build import bits_numba, compiling_numba, kernel_cache, pipeline_numba
from dynograd.kernels.build.compiling_numba import compile_source, compiled

SCALARS = (types.int64, types.uint64, types.int32, types.uint8, types.float32, types.float64, types.boolean)


def test_kernels_are_compiled_by_our_pipeline():
    assert compiled(lambda x: x)._compiler.pipeline_class is pipeline_numba.KernelCompiler
    assert compiling_numba.PIPELINE_STAMP


def test_numba_has_the_internals_of_the_pipeline():
    """Where one of these is missing, Numba's own pipeline compiles: `compiling_numba` catches what the import raises."""
    library = codegen.JITCodeLibrary
    for name in ("_optimize_functions", "_optimize_final_module", "_finalize_final_module", "_get_module_for_linking"):
        assert callable(getattr(library, name))
    assert list(inspect.signature(library.__init__).parameters) == ["self", "codegen", "name"]
    assert {"lower_getitem", "lower_setitem"} <= set(dir(lowering.Lower))
    assert callable(compiler.CompilerBase._compile_core)
    for passes, names in (
        (untyped_passes, "TranslateByteCode ReconstructSSA"),
        (typed_passes, "NopythonTypeInference"),
    ):
        assert all(callable(getattr(passes, name).run_pass) for name in names.split())


def test_a_helper_has_no_machine_code_until_python_calls_it(tmp_path, monkeypatch):
    monkeypatch.setenv("DYNOGRAD_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache_files, "_folders", {})
    monkeypatch.setattr(kernel_cache, "_counts", dict.fromkeys(kernel_cache._counts, 0))
    monkeypatch.setattr(kernel_cache, "_names", [])
    helper = compile_source("def helper(x):\n    return x * 3.0\n", "helper")
    caller = compile_source("def caller(x):\n    return helper(x) + 1.0\n", "caller", {"helper": helper})
    assert caller(2.0) == 7.0
    (result,) = helper.overloads.values()
    assert not result.library.finalized
    assert len(list((tmp_path / "kernels").glob("*.kernel"))) == 1
    assert helper(5.0) == helper(5.0) == 15.0
    (result,) = helper.overloads.values()
    assert result.library.finalized
    assert kernel_cache.statistics().items() >= {"compiled": 3, "loaded": 0, "damaged": 0}.items()
    assert compile_source("def helper(x):\n    return x * 3.0\n", "helper")(5.0) == 15.0
    assert kernel_cache.statistics().items() >= {"compiled": 3, "loaded": 1, "damaged": 0}.items()


def test_code_does_not_depend_on_who_came_first(tmp_path, monkeypatch):
    """A kernel takes in helpers as they were written, also those that were optimised for calls from Python before."""
    monkeypatch.setenv("DYNOGRAD_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache_files, "_folders", {})
    text = (
        "def helper(x):\n    total = 0.0\n    for i in range(x.size):\n        total += x[i] / 3.0\n    return total\n"
    )
    codes = []
    for first in (False, True):
        helper = compile_source(text, "helper", key=f"test {first}")
        names = {"helper": helper}
        caller = compile_source("def caller(x):\n    return helper(x) * 2.0\n", "caller", names, key=f"test {first}")
        x = np.arange(5.0)
        if first:
            assert helper(x) == pytest.approx(10 / 3)
        assert caller(x) == pytest.approx(20 / 3)
        (text_of_machine,) = caller.inspect_asm().values()
        lines = [line.split() for line in text_of_machine.splitlines() if line.startswith("\t")]
        codes.append([words[0] for words in lines if not words[0].startswith(".")])
    assert codes[0] == codes[1]


def test_of_what_others_are_made_from_bitcode_stays(tmp_path, monkeypatch):
    """Modules of LLVM are ten times as large, and most kernels are part of no other."""
    monkeypatch.setenv("DYNOGRAD_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache_files, "_folders", {})
    helper = compile_source("def helper(x):\n    return x / 7.0\n", "helper", key="bitcode")
    assert helper(14.0) == 2.0
    (result,) = helper.overloads.values()
    library = result.library
    assert library._shared is None and library._shared_module is None and library.bitcode
    caller = compile_source("def caller(x):\n    return helper(x) + 1.0\n", "caller", {"helper": helper}, key="bitcode")
    assert caller(14.0) == 3.0


@pytest.mark.parametrize("kind", SCALARS, ids=str)
def test_remembered_types_are_numbas(kind):
    """Of operators on numbers, also on those known when the kernel is compiled."""
    context = cpu_target.typing_context
    context.refresh()
    view = pipeline_numba._view_of(context)
    literals = {types.int64: types.literal(3), types.boolean: types.literal(True)}
    for function in pipeline_numba._ON_NUMBERS:
        unary = function in (operator.neg, operator.pos, operator.invert)
        for other in (None,) if unary else SCALARS:
            for first, second in {(kind, other), (literals.get(kind, kind), literals.get(other, other))}:
                arguments = (first,) if unary else (first, second)
                expected = _type_of(context, function, arguments)
                assert _type_of(view, function, arguments) == expected
                assert _type_of(view, function, arguments) == expected  # now from memory


def _type_of(context, function, arguments):
    try:
        signature = context.resolve_function_type(function, arguments, {})
    except errors.TypingError:
        return None
    return None if signature is None else signature.return_type


def indexed(x, y, i, j):
    y[0] = x[i, j]
    y[1] = x[i][j]
    row = x[i]
    row[j] += 1
    y[-1] = row.size + row.shape[0] + row.strides[0]
    y[2] = x[i, np.uint8(1)]


@pytest.mark.parametrize("layout", ["C", "F", "strided", "reversed", "read only"])
@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "bool", "complex64"])
@pytest.mark.parametrize(("i", "j"), [(0, 0), (1, -1), (-2, 2), (np.uint64(1), np.int32(-3))])
def test_elements_are_those_of_numpy(layout, dtype, i, j):
    base = np.arange(24).reshape(4, 6).astype(dtype)
    x = {"C": base, "F": np.asfortranarray(base), "strided": base[::2, ::2], "reversed": base[::-1, ::-1]}.get(
        layout, base
    )
    if layout == "read only":
        kernel = compiled(lambda x, y, i, j: (x[i, j], x[i][j], x[-1, -1]))
        x.flags.writeable = False
        assert kernel(x, x, i, j) == (x[i, j], x[i, j], x[-1, -1])
        return
    results = []
    for function in (compiled(indexed), indexed) if dtype != "bool" else (compiled(flagged), flagged):
        own, y = x.copy(order="K") if layout in "CF" else _like(base, layout), np.zeros(5, dtype)
        function(own, y, i, j)
        results.append((own, y))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])


def flagged(x, y, i, j):
    y[0], y[1] = x[i, j], x[i][j]
    x[i, j] = not x[i, j]


def _like(base, layout):
    base = base.copy()
    return base[::2, ::2] if layout == "strided" else base[::-1, ::-1]


def allocates(x):
    result = np.empty(x.size, x.dtype)
    for i in range(x.size):
        result[i] = x[i] * 2
    return result


def views(x):
    return x[1:]


def sums_views(x):
    row = x[1:]
    total = row[0] + allocated(x)[2]
    for _ in range(3):
        row = row[:-1]
        total += row[row.size - 1]
    return total


allocated = compiled(allocates)


def test_memory_is_given_back():
    """Arrays that a kernel makes are counted; those that it borrows keep their number of references."""
    from sys import getrefcount

    from numba.core.runtime import _nrt_python, rtsys

    x = np.arange(8.0)
    kernel, view = compiled(sums_views), compiled(views)
    assert kernel(x) == 1 + 4 + 6 + 5 + 4
    part = view(x)
    np.testing.assert_array_equal(part, x[1:])
    np.testing.assert_array_equal(allocated(x), 2 * x)
    del part
    references = getrefcount(x)
    _nrt_python.memsys_enable_stats()
    try:
        before = rtsys.get_allocation_stats()
        for _ in range(5):
            kernel(x)
            view(x)
            allocated(x)
        after = rtsys.get_allocation_stats()
    finally:
        _nrt_python.memsys_disable_stats()
    assert getrefcount(x) == references
    assert after.alloc - before.alloc == after.free - before.free > 0


def with_closure(x):
    factor = 3.0
    scaled = [value * factor for value in x]
    return sum(scaled)


def whole_arrays(x):
    y = x * 2.0 + 1.0
    y[1:] += x[:-1]
    return y.sum()


def selects(x):
    total = 0.0
    for _ in range(3):
        part = x[np.array([0, 2])]
        total += part[1]
    return total


def selected_by(x, index):
    part = x[index]
    return part[0] + part[1]


def overlaps(x):
    x[1:] = x[:-1]
    x[:] = 2.0 * x[0] ** 3
    return x[2] ** 2 + x[1]


def powers(x):
    total = 0
    for i in range(x.size):
        total += i**3
    return total


def branches(x, other):
    if other is None:
        return x[0]
    return x[0] + other[0]


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (with_closure, ()),
        (selects, ()),
        (selected_by, (np.array([3, 1]),)),
        (overlaps, ()),
        (powers, ()),
        (whole_arrays, ()),
        (branches, (None,)),
        (branches, (np.ones(1),)),
    ],
)
def test_rarer_forms_of_python_compile_too(function, arguments):
    x = np.arange(1.0, 6.0)
    assert compiled(function)(x.copy(), *arguments) == pytest.approx(function(x.copy(), *arguments))


def raises(x):
    if x.size > 2:
        raise ValueError("too many")
    return calls_raising(x)


def raises_text(x):
    if x[0] > 2:
        raise ValueError(f"got {x.size}")
    return x[0]


calls_raising = compiled(raises_text)


def test_errors_of_kernels_and_helpers_reach_python():
    kernel = compiled(raises)
    assert kernel(np.ones(1)) == 1
    with pytest.raises(ValueError, match="too many"):
        kernel(np.ones(3))
    with pytest.raises(ValueError, match="got 2"):
        kernel(np.full(2, 3.0))


PLAIN = """
import sys, warnings
sys.modules['dynograd.kernels.build.pipeline_numba'] = None
import dynograd
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    assert abs(dynograd.ones(300, 300).softmax(1).sum().item() - 300) < 1e-3
(told,) = [str(each.message) for each in told if "lacks what kernels are compiled by" in str(each.message)]
assert "pipeline_numba" in told and "one thread" in told, told
"""


def test_a_numba_that_lacks_an_internal_is_told_and_computes():
    done = subprocess.run([sys.executable, "-c", PLAIN], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


SLICES = """def slices(x, a, b, seen):
    part = x[a:b]
    seen[0], seen[1], seen[2], seen[3] = part.size, x[a:].size, x[:b].size, x[:].size
    for i in range(part.size):
        seen[4] += part[i]
    x[a:b] = 7
    rest = x[a:]
    rest[:b] = True
"""


@pytest.mark.parametrize("kind", ["float32", "int16", "bool"])
@pytest.mark.parametrize("size", [0, 1, 5])
def test_slices_of_a_vector(size, kind):
    kernel = compile_source(SLICES, "slices")
    for a in range(-7, 8):
        for b in range(-7, 8):
            x, seen = np.arange(size).astype(kind), np.zeros(5)
            expected = x.copy()
            kernel(x, a, b, seen)
            part = expected[a:b]
            assert seen.tolist() == [part.size, expected[a:].size, expected[:b].size, size, part.sum()], (a, b)
            expected[a:b] = 7
            expected[a:][:b] = True
            np.testing.assert_array_equal(x, expected, err_msg=f"{a}:{b}")


def test_slices_with_steps_of_rows_and_of_other_values_are_numbas():
    text = """def mixed(x, y):
        y[::2] = x[0, 1:3]
        y[1:2] = x[1, :1]
        x[:, 1] = 5
        return x[1:, ::2].sum()
    """
    x, y = np.arange(8.0).reshape(2, 4), np.zeros(4)
    assert compile_source(text, "mixed")(x, y) == 4 + 6
    assert y.tolist() == [1, 4, 2, 0] and x[:, 1].tolist() == [5, 5]


@pytest.mark.parametrize(
    "to_bits, to_float, kind", [("int32_of", "float32_of", np.float32), ("int64_of", "float64_of", np.float64)]
)
def test_floats_and_the_integers_of_their_bits(to_bits, to_float, kind):
    names = {"cast": getattr(bits_numba, to_bits), "back": getattr(bits_numba, to_float)}
    kernel = compile_source("def both(x):\n    return cast(x), back(cast(x))\n", "both", names, key=to_bits)
    for value in (0.0, -0.0, 1.5, -np.inf, np.finfo(kind).smallest_subnormal):
        bits, same = kernel(kind(value))
        assert bits == kind(value).view(f"i{kind().itemsize}") and kind(same).tobytes() == kind(value).tobytes()
