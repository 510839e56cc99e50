"""Which sizes are compiled, and results in another shape that still own their memory."""

import subprocess
import sys
import textwrap

import numpy as np

from dynograd import arrays
from dynograd.arrays import buffers
from dynograd.arrays.buffers import in_shape

PROGRAM = """
    import sys
    import dynograd
    from dynograd.kernels.build.compiled_kernels import compiled_for
    from dynograd.kernels.build.sizes import FEW_ROWS
    small = dynograd.ones(2, 3)
    for _ in range(3000):
        dynograd.softmax(small, 1)
    assert "numba" not in sys.modules, "nobody waits for Numba on a toy"
    assert compiled_for(FEW_ROWS - 1) is None and compiled_for(FEW_ROWS) is not None
    with dynograd.use_batch_invariant(True):
        assert compiled_for(1) is not None, "the same bits at every size"
    assert compiled_for(1) is None
    dynograd.softmax(dynograd.ones(30, 40), 1)
    assert "numba" in sys.modules
    assert compiled_for(1) is None, "whatever was called before"
"""


def test_size_alone_decides():
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(PROGRAM)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# What small arrays give before and after Numba is loaded, in one process: rows by name.
SMALL = {
    "softmax": "F.softmax(x, 1)",
    "softmax of columns": "F.softmax(x, 0)",
    "log_softmax": "F.log_softmax(x, 1)",
    "logsumexp": "x.logsumexp(1)",
    "layer_norm": "F.layer_norm(x, (x.shape[1],))",
    "rms_norm": "F.rms_norm(x, (x.shape[1],))",
    "batch_norm": "F.batch_norm(x, None, None, None, None, True)",
    "cross_entropy": "F.cross_entropy(x, places[:, 0])",
    "nll_loss": "F.nll_loss(x, places[:, 0])",
    "mse_loss": "F.mse_loss(x, x * 2)",
    "binary loss": "F.binary_cross_entropy_with_logits(x, (x > 0).float())",
    "dropout": "F.dropout(x, 0.3)",
    "gelu": "F.gelu(x + 1)",
    "swiglu": "F.silu(x) * x",
    "var": "x.var(1)",
    "sum": "x.sum(0) + x.sum()",
    "cumsum": "x.cumsum(1)",
    "gather": "x.gather(1, places)",
    "index_add": "x.index_add(0, places[:, 0], x)",
    "scatter_add": "x.scatter_add(1, places, x)",
    "random": "dynograd.randn(3, 5) + dynograd.rand(3, 5) + x[:1, :1]",
    "topk": "x.topk(2)[0]",
    "sort": "x.sort()[0]",
    "segments": "dynograd.ragged_tensor([x[0], x[1, :3]]).softmax(1).values",
    "attention": "F.scaled_dot_product_attention(x, x, x)",
    "norm": "x.norm()",
    "pool": "F.max_pool1d(x[None], 2)",
    "product": "x @ x.T",
}
HISTORY = """
    import sys
    import numpy
    import dynograd
    from dynograd.nn import functional as F

    expressions = {expressions!r}

    def results():
        out = dict()
        for name, text in expressions.items():
            for shape in ((2, 3), (2, 5), (3, 7), (4, 33)):
                numbers = numpy.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")
                x = dynograd.tensor(numbers, requires_grad=True)
                places = dynograd.tensor(numpy.arange(shape[0])[:, None] % 2)
                dynograd.manual_seed(1)
                y = eval(text)
                g, = dynograd.autograd.grad((y * y).sum(), x) if y.requires_grad else (x,)
                out[name, shape] = [part.detach().numpy().tobytes() for part in (y, g)]
        return out

    first = results()
    import dynograd.kernels.build.compiling_numba
    for _ in range(2200):
        dynograd.softmax(dynograd.ones(2, 2), 1).sum()
    later = results()
    print(sorted({{name for name in first if first[name] != later[name]}}))
"""


def test_results_do_not_depend_on_what_ran_before():
    program = textwrap.dedent(HISTORY).format(expressions=SMALL)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_in_shape_keeps_the_owner():
    for count in (12, 1 << 20):
        created = buffers.empty((count,), np.float32)
        created[:] = np.arange(count)
        result = in_shape(created, (4, count // 4))
        assert result.shape == (4, count // 4) and arrays.owns_memory(result)
        assert result[1, 0] == count // 4
    view = np.zeros((2, 6))[:, :3]
    assert in_shape(view, (3, 2)).shape == (3, 2)
