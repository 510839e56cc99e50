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
    from dynograd.kernels.build import compiled_kernels as kernels
    small = dynograd.ones(3, 4)
    dynograd.softmax(small, 1)
    assert "numba" not in sys.modules
    assert kernels.compiled_for(kernels.COMPILED_ROWS - 1) is None
    with dynograd.use_batch_invariant(True):
        assert kernels.compiled_for(1) is not None, "the same bits at every size"
    kernels._loaded = None
    kernels._small_calls = kernels.SMALL_CALLS
    assert kernels.compiled_for(1) is not None, "many small calls"
    kernels._loaded, kernels._small_calls = None, 0
    dynograd.softmax(dynograd.ones(30, 40), 1)
    assert "numba" in sys.modules
    assert kernels.compiled_for(1) is not None, "small arrays too, now that it is there"
"""


def test_small_arrays_wait_for_larger_ones():
    found = subprocess.run([sys.executable, "-c", textwrap.dedent(PROGRAM)], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr


def test_in_shape_keeps_the_owner():
    for count in (12, 1 << 20):
        made = buffers.empty((count,), np.float32)
        made[:] = np.arange(count)
        found = in_shape(made, (4, count // 4))
        assert found.shape == (4, count // 4) and arrays.owns_memory(found)
        assert found[1, 0] == count // 4
    view = np.zeros((2, 6))[:, :3]
    assert in_shape(view, (3, 2)).shape == (3, 2)
