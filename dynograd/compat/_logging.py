"""`torch._logging`: which notes of PyTorch's compiler are wanted. There are none here; `report()` of a compiled function says what it would log."""

from __future__ import annotations

import functools
import logging
from typing import Any

__all__ = ["getArtifactLogger", "set_logs", "warning_once"]

_COMPONENTS = "all dynamo aot autograd dynamic inductor distributed c10d ddp fsdp dtensor onnx".split()
_ARTIFACTS = """bytecode aot_graphs aot_joint_graph ddp_graphs graph graph_code graph_code_verbose graph_breaks side_effects graph_sizes guards
recompiles recompiles_verbose trace_source trace_call trace_bytecode output_code kernel_code schedule perf_hints pre_grad_graphs post_grad_graphs
ir_pre_fusion ir_post_fusion onnx_diagnostics fusion overlap export cudagraphs sym_node compiled_autograd compiled_autograd_verbose
cudagraph_static_inputs benchmarking autotuning incremental graph_region_expansion inductor_metrics hierarchical_compile compute_dependencies
caching""".split()


def set_logs(**names: Any) -> None:
    """Accepts what PyTorch's function does, and changes nothing: nothing is traced. Print `report()` of a compiled function instead.

    Args:
        names: components with levels of `logging` (`dynamo=logging.DEBUG`), artifacts with flags (`recompiles=True`), and `modules`, a dict of names
            and levels.
    Raises:
        TypeError: a name that PyTorch does not know.

    >>> dynograd._logging.set_logs(graph_breaks=True, recompiles=True)
    """
    for name in names:
        if name not in (*_COMPONENTS, *_ARTIFACTS, "modules"):
            raise TypeError(
                f"set_logs() got an unexpected keyword argument {name!r}. Known are {', '.join((*_COMPONENTS, *_ARTIFACTS))} and modules."
            )


def getArtifactLogger(module_qname: str, artifact_name: str) -> logging.Logger:
    """A logger for notes of one kind.

    Args:
        module_qname: of the module that makes them.
        artifact_name: the kind.
    Returns:
        The logger `module_qname.__artifact_name`.

    >>> dynograd._logging.getArtifactLogger("mine", "graph").name
    'mine.__graph'
    """
    return logging.getLogger(f"{module_qname}.__{artifact_name}")


@functools.cache
def warning_once(logger_obj: logging.Logger, *args: Any, **kwargs: Any) -> None:
    """Warns by a logger, once for the same arguments.

    Args:
        logger_obj: the logger.
        args, kwargs: of its `warning`.

    >>> import logging
    >>> dynograd._logging.warning_once(logging.getLogger("mine.quiet"), "%s")  # doctest: +SKIP
    """
    logger_obj.warning(*args, **kwargs)
