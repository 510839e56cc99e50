"""The rows. Each file registers its own (`@row`); importing this package fills `ROWS` in the order of the table."""

from benchmarks.rows import chains, operations, modules, mlp, recurrent, sentiment, convnet  # isort: skip
from benchmarks.workload import ROWS

__all__ = ["ROWS"]
