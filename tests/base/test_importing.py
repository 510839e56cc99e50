"""What makes an import quick gives what Python's own gives, and leaves nothing behind."""

import copy
import gc
import inspect
import subprocess
import sys

import pytest

import dynograd
from dynograd.base.garbage import uncollected
from dynograd.base.signatures import SignatureLater, annotations_of, show_plainly, signature_of
from dynograd.ops.op import registry


def unhashable_default(input, dims=[0, 1], *, keepdim: bool = False) -> int:  # noqa: B006
    return 0


def told_by_types(a=1, b=True, c=1.0):
    return a


def starred(a, /, b, *rest, c=2, **named):
    return a


def many(a: int, b="b", *rest: str, c, d=None, **named: float):
    return a


def only_named(*, c: int = 2, **named):
    return c


FUNCTIONS = [
    unhashable_default,
    told_by_types,
    starred,
    many,
    only_named,
    *[entry.forward for entry in registry.values()],
]


def test_signatures_show_no_quotes_and_nothing_private():
    def taken(input: "Array", other: "Any" = 1, _old: "Any" = None, dim: "int | None" = None) -> "Array | None": ...  # noqa: F821

    def spread(*sizes: "Any", **named: "Any") -> "Any": ...  # noqa: F821

    class Held:
        __module__ = "dynograd.held"

        def keep(self, value: "Any") -> "None": ...  # noqa: F821

        @staticmethod
        def of(value: "Any") -> "Held": ...  # noqa: F821

    show_plainly({"taken": taken, "spread": spread, "Held": Held, "number": 3})
    assert str(inspect.signature(taken)) == (
        "(input: Tensor, other: Any = 1, *, dim: int | None = None) -> Tensor | None"
    )
    assert str(inspect.signature(spread)) == "(*sizes: Any, **named: Any) -> Any"
    assert str(inspect.signature(Held.keep)) == "(self, value: Any) -> None"
    assert str(inspect.signature(Held.of)) == "(value: Any) -> Held"
    assert "dim: int | tuple[int, ...] | None = None" in str(inspect.signature(dynograd.sum))
    assert "_stacklevel" not in str(inspect.signature(dynograd.softmax))
    assert dynograd.softmax(dynograd.zeros(2), 0, 3, dynograd.float64).dtype is dynograd.float64  # and takes it


def test_signatures_are_those_of_inspect():
    assert [function.__name__ for function in FUNCTIONS if signature_of(function) != inspect.signature(function)] == []


def test_annotations_are_those_of_the_parameters():
    for function in FUNCTIONS:
        parameters = inspect.signature(function).parameters
        expected = {name: parameter.annotation for name, parameter in parameters.items()}
        assert list(annotations_of(function).items()) == list(expected.items()), function.__name__


def test_a_signature_is_read_when_somebody_looks_at_it():
    times = []
    later = SignatureLater(lambda: times.append(1) or inspect.signature(many))
    many_later = lambda *args: args  # noqa: E731
    many_later.__signature__ = later
    assert inspect.signature(many_later) is later and not times
    plain = inspect.signature(many)
    assert later == plain and plain == later and hash(later) == hash(plain) and len(times) == 1
    assert (str(later), repr(later)) == (str(plain), repr(plain))
    assert later.bind(1, c=3).arguments == plain.bind(1, c=3).arguments
    assert later.replace(parameters=[]) == inspect.Signature() and copy.copy(later) == plain and len(times) == 1


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_as_it_was(enabled):
    was = gc.isenabled()
    try:
        gc.enable() if enabled else gc.disable()
        with pytest.raises(KeyError), uncollected():
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() is enabled
    finally:
        gc.enable() if was else gc.disable()


def test_an_import_leaves_the_collector_on():
    done = subprocess.run(
        [sys.executable, "-c", "import gc, dynograd; print(gc.isenabled())"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"


def test_what_an_import_makes_is_old_and_what_a_program_froze_stays_frozen():
    program = """
import gc
gc.freeze()
frozen = gc.get_freeze_count()
import dynograd
assert frozen // 2 < gc.get_freeze_count() <= frozen  # a few are used up
gc.unfreeze()
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    young = """
import numpy, gc
frozen = gc.get_freeze_count()  # Python 3.12 begins with some
import dynograd
print(len(gc.get_objects(0)) < 2000, gc.get_freeze_count() - frozen)
"""
    done = subprocess.run([sys.executable, "-c", young], capture_output=True, text=True, check=True)
    assert done.stdout == "True 0\n"


UNUSED = "numba triton llvmlite secrets hmac tempfile difflib multiprocessing importlib.metadata asyncio"


def test_an_import_loads_nothing_that_only_some_programs_use():
    program = f"""
import numpy, ml_dtypes, sys
before = {{*sys.modules}}
import dynograd
print(sorted(({{*sys.modules}} - before).intersection({UNUSED.split()!r})))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# What a saved program's first answer has no use for. Numba brings SciPy and coverage where they are installed.
UNANSWERED = """dynograd.nn.layers dynograd.nn.modules dynograd.nn.functional dynograd.nn.init dynograd.nn.utils dynograd.transforms dynograd.distributed
    dynograd.optim dynograd.data dynograd.plans dynograd.tools dynograd.debug dynograd.runs dynograd.profiler dynograd.amp dynograd.sparse dynograd.export.tracing
    dynograd.export.recording dynograd.onnx asyncio tqdm safetensors.numpy"""


@pytest.mark.parametrize(
    ("model", "call", "also"),
    [
        (
            dynograd.nn.Linear,
            "load_program(path)(x)",
            "numba llvmlite concurrent.futures socket",
        ),  # few rows are NumPy's
        (dynograd.nn.Linear, "load(path).module()(x)", "numba llvmlite concurrent.futures socket"),
        (dynograd.nn.GRU, "load_program(path)(x)[0]", "numba.cuda"),
        (dynograd.nn.GRU, "load(path).module()(x)[0]", "numba.cuda"),
    ],
)
def test_a_first_answer_loads_what_it_computes_with(tmp_path, model, call, also):
    path = str(tmp_path / "model.dg")
    x = dynograd.ones(4, 3)
    expected = dynograd.export.save_program(model(3, 2), (x,), path)(x)  # its kernels are in the cache from now on
    expected = expected[0] if isinstance(expected, tuple) else expected
    program = f"""
import numpy, ml_dtypes, sys
before = {{*sys.modules}}
import dynograd
path, x = {path!r}, dynograd.ones(4, 3)
answer = dynograd.export.{call}.tolist()
print(sorted(({{*sys.modules}} - before).intersection({(UNANSWERED + " " + also).split()!r})), answer)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == f"[] {expected.tolist()}\n"


@pytest.mark.skipif(
    sys.version_info[:2] == (3, 12),
    reason="CPython 3.12 begins with frozen objects, and nothing is put among the old ones then",
)
def test_garbage_of_long_ago_is_collected_where_kernels_are_compiled_again_and_again():
    """Objects that compiling has made are old, and so is what lay about then: Python itself does not come to look at it."""
    program = """
import gc, weakref
from dynograd.base import garbage
from dynograd.kernels.build.targets_numba import _no_garbage

class Cycle:
    def __init__(self):
        self.itself = self

garbage._MOST_AGED, many = 50_000, garbage._FEW + 1000
gc.collect()
cycle, kept = Cycle(), []
lost = weakref.ref(cycle)
for number in range(8):
    with _no_garbage:
        kept += [[] for _ in range(many)]
    cycle = None
print(lost() is None, gc.isenabled())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True True\n"
