"""The rows. Each file registers its own (`@row`); importing this package fills `ROWS` in the order of the table."""

from benchmarks.rows import chains, operations, modules  # isort: skip
from benchmarks.rows import (
    convnets,
    decoding,
    experts,
    functions,
    graphs,
    language,
    mlp,
    optimizers,
    ragged,
    ragged_operations,
    recurrent,
    second_order,
    sentiment,
    tagging,
    vae,
    varlen,
)  # isort: skip

from benchmarks.rows import per_example, dynamic, programs, treebank, data, checkpoints  # isort: skip
from benchmarks.rows import kernels  # isort: skip
from benchmarks.workload import ROWS

__all__ = ["ROWS"]
