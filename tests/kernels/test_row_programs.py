"""Row programs: what is a program, what it computes, that parts change no bits."""

import numpy as np
import pytest

from dynograd.kernels.build import threads
from dynograd.kernels.build.compiled_kernels import compiled_for
from dynograd.kernels.rows import row_programs_numba
from dynograd.kernels.rows.row_formulas import PROGRAMS
from dynograd.kernels.rows.row_programs import RowProgram

KERNELS = compiled_for(1 << 30)


@pytest.fixture
def two_threads():
    before = threads.get_num_threads()
    threads.set_num_threads(2)
    yield
    threads.set_num_threads(before)


def test_kinds_and_passes():
    created = RowProgram("softmax", PROGRAMS["softmax"])
    kinds = {name: step.kind for name, step in created.steps.items()}
    assert (kinds["top"], kinds["e"], kinds["scale"], kinds["y"]) == ("each", "row", "each", "row")
    assert created.passes == 3
    assert created.kept == {"e": 1}, "exponentials are stored, not computed twice"
    created = RowProgram("layer_norm_backward", PROGRAMS["layer_norm_backward"])
    assert created.kept == {}, "what is cheap is computed again"
    assert [created.kind_of(name) for name in created.outputs] == ["row", "column_sum", "column_sum"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("row x\ny = x + z\nwrite y", ["line 2", "z is not known yet"]),
        ("row x\nx = x + 1\nwrite x", ["line 2", "x is there already"]),
        ("row x\ny = x +\nwrite y", ["line 2", "expected a value"]),
        ("row x\ny = x", ["no `write` line"]),
        ("row x\nwrite y", ["line 2", "no step makes y"]),
        ("row x\nnonsense", ["line 2", "expected `name = expression`"]),
        ("row x\ns = column_sum(x)\ny = x - s\nwrite y", ["line 3", "s is a column sum"]),
        ("row x\nvector b\nb2 = b * 2\nwrite b2", ["line 4", "b2 is a vector"]),
        ("row x\nnumber e\ns = sum(e)\nwrite s", ["line 3", "sum of a number"]),
        ("row x\nsize = x\nwrite size", ["line 2", "'size' cannot be a name"]),
        ("row x\neach i\np = pick(x, i)\nwrite p", ["line 3", "i is no label"]),
        ("row x\nwhole i\np = pick(x, i)\nwrite p", ["line 3", "i is no label"]),
        ("row x\nlabel i\np = pick(x + 1, i)\nwrite p", ["line 3", "pick of (x + 1), which is no row or vector"]),
        (
            "row x\nlabel i\neach e\ny = 2 * less(x, i, e)\nwrite y",
            ["line 4", "less(x, label, y) is a step of its own"],
        ),
        ("row x\nlabel i\ny = less(x, i, 1)\nwrite y", ["line 3", "1 is not known yet"]),
        ("row x\nlabel i\nnumber e\ny = less(x, i, e)\nwrite y", ["line 4", "less takes e, a number"]),
        ("row x\nlabel i\neach e\ny = less(x, i, e)\ns = sum(y)\nwrite s", ["line 5", "y has something taken from it"]),
    ],
)
def test_errors_say_where(text, words):
    with pytest.raises(ValueError, match="row program p") as caught:
        RowProgram("p", text)
    for word in words:
        assert word in str(caught.value)


def run(text, *inputs):
    return row_programs_numba.runner_of(RowProgram("p", text))(*inputs)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_program_of_everything(dtype):
    text = """
        row x, g     # a comment
        each a
        vector w
        number e
        half = e / 2
        shifted = (x - sum(x) / columns) * a + half
        top = max(shifted * w)
        y = top > 0 ? exp(shifted - top) : -g
        t = y * y
        s = sum(max(t, 0.1))
        total = column_sum(t / s)
        write y, top, total
    """
    rng = np.random.default_rng(0)
    x, g = rng.normal(size=(2, 7, 50)).astype(dtype)
    a, w = rng.normal(size=7).astype(dtype), rng.normal(size=50).astype(dtype)
    y, top, total = run(text, x, g, a, w, 0.5)
    shifted = (x - x.mean(1, keepdims=True)) * a[:, None] + 0.25
    wanted_top = (shifted * w).max(1)
    expected = np.where(wanted_top[:, None] > 0, np.exp(shifted - wanted_top[:, None]), -g)
    sums = np.maximum(expected**2, 0.1).sum(1)
    tolerance = 2e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(y, expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(top, wanted_top, rtol=tolerance)
    np.testing.assert_allclose(total, (expected**2 / sums[:, None]).sum(0), rtol=tolerance)
    assert y.dtype == top.dtype == total.dtype == dtype


@pytest.mark.parametrize("inner", [(), (300,)])
def test_labels(inner):
    """What lies in a column that each row names; a label that is no column picks nothing and takes nothing."""
    text = """
        row x
        vector w
        label i
        whole left_out
        share = i == left_out ? 0 : pick(x, i) * pick(w, i)
        y = less(x * 2, i, share)
        write share, y
    """
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(6, 5, *inner)).astype(np.float32), rng.normal(size=5).astype(np.float32)
    labels = np.resize([0, 4, -100, 5, 2, 3], (6, *inner))
    created = RowProgram("p", text)
    runner = row_programs_numba.runner_inner_of(created) if inner else row_programs_numba.runner_of(created)
    share, y = runner(x, w, labels, 2)
    expected, wanted_share = 2 * x, np.zeros_like(share)
    for place in np.ndindex(labels.shape):
        column = labels[place]
        if 0 <= column < 5 and column != 2:
            at = (place[0], column, *place[1:])
            wanted_share[place] = x[at] * w[column]
            expected[at] -= wanted_share[place]
    np.testing.assert_allclose(share, wanted_share, rtol=1e-6)
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)


def test_a_kept_value_without_room_in_an_output():
    """`e` is needed after `y` is written: it gets a row of its own."""
    text = """
        row x
        e = exp(x)
        a = sum(e)
        y = x / a
        b = sum(y * e)
        write y, b
    """
    x = np.random.default_rng(0).normal(size=(5, 70)).astype(np.float32)
    y, b = run(text, x)
    np.testing.assert_allclose(y, x / np.exp(x).sum(1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(b, (y * np.exp(x)).sum(1), rtol=1e-4, atol=1e-5)


def test_long_rows_keep_their_digits():
    x = np.full((1, 3_000_001), 0.1, np.float32)
    result = run("row x\ns = sum(x)\nwrite s", x)
    np.testing.assert_allclose(result, [3_000_001 * float(np.float32(0.1))], rtol=2e-6)
    tall = np.full((200_000, 3), 0.1, np.float32)
    total = run("row x\ns = column_sum(x)\nwrite s", tall)
    np.testing.assert_allclose(total, [200_000 * float(np.float32(0.1))] * 3, rtol=2e-5)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0), (1, 1)])
def test_sizes_that_are_not_there(shape):
    x = np.ones(shape, np.float32)
    vector = np.ones(shape[1], np.float32)
    assert KERNELS["softmax"](x).shape == shape
    y, mean, _ = KERNELS["layer_norm"](x, vector, vector, 1e-5)
    assert y.shape == shape and mean.shape == shape[:1]
    gx, gw, gb = KERNELS["layer_norm_backward"](x, x, mean, mean, vector)
    assert gx.shape == shape and gw.shape == gb.shape == shape[1:]
    if shape[0] == 0:
        assert not gw.any() and not gb.any()


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "layer_norm_backward", "rms_norm_backward"])
def test_parts_change_no_bits(name, two_threads):
    """Also column sums: their blocks follow from the sizes."""
    program = RowProgram(name, PROGRAMS[name])
    rng = np.random.default_rng(1)
    shapes = {"row": (3000, 40), "each": (3000,), "vector": (40,)}
    inputs = [
        1e-5 if kind == "number" else rng.uniform(0.5, 1, shapes[kind]).astype(np.float32)
        for kind in program.inputs.values()
    ]
    several = KERNELS[name](*inputs)
    threads.set_num_threads(1)
    alone = KERNELS[name](*inputs)
    for a, b in zip(
        several if isinstance(several, tuple) else [several],
        alone if isinstance(alone, tuple) else [alone],
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("shape", [(3, 9, 5), (2, 70, 300), (1, 4, 257), (2, 600, 3)])
def test_rows_along_a_middle_dim(shape, two_threads):
    rng = np.random.default_rng(2)
    x, g = rng.normal(size=(2, *shape)).astype(np.float32)
    rows = np.ascontiguousarray(np.moveaxis(x, 1, -1)).reshape(-1, shape[1])
    outer = np.ascontiguousarray(np.moveaxis(g, 1, -1)).reshape(-1, shape[1])
    for name in ("softmax", "log_softmax"):
        y = KERNELS[f"{name}_inner"](x)
        flat = KERNELS[name](rows)
        back = np.moveaxis(flat.reshape(shape[0], shape[2], shape[1]), -1, 1)
        np.testing.assert_allclose(y, back, rtol=1e-5, atol=1e-6)
        gx = KERNELS[f"{name}_backward_inner"](g, y)
        expected = KERNELS[f"{name}_backward"](outer, flat).reshape(shape[0], shape[2], shape[1])
        np.testing.assert_allclose(gx, np.moveaxis(expected, -1, 1), rtol=1e-4, atol=1e-5)


def test_rows_do_not_feel_their_neighbours():
    x = np.random.default_rng(3).normal(size=(500, 133)).astype(np.float32)
    ones = np.ones(133, np.float32)
    for name, more in (
        ("softmax", ()),
        ("log_softmax", ()),
        ("layer_norm", (ones, ones, 1e-5)),
        ("rms_norm", (ones, 1e-5)),
    ):
        whole, single = KERNELS[name](x, *more), KERNELS[name](x[77:78], *more)
        whole, single = (result[0] if isinstance(result, tuple) else result for result in (whole, single))
        np.testing.assert_array_equal(whole[77:78], single)


def test_column_blocks_follow_from_the_sizes():
    for rows, columns in ((1, 1), (0, 5), (64, 256), (4096, 1024), (10**6, 16), (512, 32000)):
        blocks, block_rows = row_programs_numba.column_blocks(rows, columns)
        assert blocks * block_rows >= rows > (blocks - 1) * block_rows or (rows == 0 and blocks == 1)


def test_no_inner_form_of_column_sums():
    with pytest.raises(NotImplementedError, match="no form for an inner dim"):
        row_programs_numba.runner_inner_of(RowProgram("p", "row x\ns = column_sum(x)\nwrite s"))
