"""The rows. Each file registers its own (`@row`); importing this package fills `ROWS` in the order of the table."""

from benchmarks.rows import chains, operations, modules  # isort: skip
from benchmarks.rows import mlp, convnets, recurrent, sentiment, tagging, varlen, ragged, ragged_operations, language, vae, graphs, optimizers  # isort: skip
from benchmarks.rows import per_example, dynamic, data, checkpoints  # isort: skip
from benchmarks.rows import kernels  # isort: skip
from benchmarks.workload import ROWS

__all__ = ["ROWS"]
