"""An exported program: saving it, running it, and listing what is in it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["EXTERNAL_ABOVE", "ONNXProgram", "listing", "onnx_package"]

EXTERNAL_ABOVE = 1 << 30  # bytes of weights; a protobuf holds 2 GiB at most


def onnx_package(name: str, user: str) -> Any:
    """A package of the extra `onnx`.

    Raises:
        ImportError: it is not installed.
    """
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{user} needs {name}, which is not installed: pip install 'dynograd[onnx]'.") from error


class ONNXProgram:
    """What `dynograd.onnx.export` gives.

    Args:
        model: the `onnx.ModelProto`, as `model_proto`.
        check: compares onnxruntime with the program; see `verify`.
    """

    def __init__(self, model: Any, check: Callable[[Any], float]) -> None:
        self.model_proto, self._check = model, check

    def save(
        self,
        destination: Any,
        *,
        include_initializers: bool = True,
        keep_initializers_as_inputs: bool = False,
        external_data: bool | None = None,
    ) -> None:
        """Writes the model.

        Args:
            destination: a path, or a file opened for writing bytes.
            include_initializers: write the weights.
            keep_initializers_as_inputs: list the weights among the inputs, too, for old runtimes.
            external_data: write the weights into a file beside the model (`<name>.data`); None: where they are above 1 GB.
        Raises:
            ValueError: external data for a file that has no path.

        >>> program = dynograd.onnx.export(dynograd.nn.Linear(2, 1), (dynograd.ones(1, 2),))
        >>> program.save("linear.onnx")
        """
        onnx = onnx_package("onnx", "ONNXProgram.save")
        model = onnx.ModelProto()
        model.CopyFrom(self.model_proto)
        graph = model.graph
        size = sum([len(tensor.raw_data) for tensor in graph.initializer])
        if keep_initializers_as_inputs or not include_initializers:
            graph.input.extend(
                [
                    onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
                    for tensor in graph.initializer
                ]
            )
        if not include_initializers:
            del graph.initializer[:]
        apart = size > EXTERNAL_ABOVE if external_data is None else external_data
        if isinstance(destination, (str, os.PathLike)):
            path = Path(destination)
            options = (
                dict(save_as_external_data=True, location=f"{path.name}.data", size_threshold=1024) if apart else {}
            )
            if apart:
                path.with_name(f"{path.name}.data").unlink(missing_ok=True)
            onnx.save_model(model, str(path), **options)
        elif apart:
            raise ValueError(
                f"ONNXProgram.save: {size:,} bytes of weights go into a file beside the model, but a {type(destination).__name__} has no path. "
                f"Give a path."
            )
        else:
            destination.write(model.SerializeToString())

    def verify(self) -> float:
        """Checks the model with `onnx.checker`, and runs it on onnxruntime beside the program at three sizes of its dynamic axes.

        Returns:
            The largest difference, as a share of the largest value or of 1.
        Raises:
            OnnxError: a difference is above 1e-4.
        """
        return self._check(self.model_proto)

    def __call__(self, *inputs: Any) -> list[Any]:
        """The model's outputs on onnxruntime, as tensors."""
        from dynograd.onnx.verifying import run

        return run(self.model_proto, inputs)

    def __str__(self) -> str:
        return listing(self.model_proto)

    __repr__ = __str__


def listing(model: Any) -> str:
    """What is in a model: its inputs, outputs, weights and nodes, a line each."""
    graph = model.graph
    opsets = ", ".join([f"{opset.domain or 'ai.onnx'} {opset.version}" for opset in model.opset_import])
    weights = sum([_count(tensor.dims) for tensor in graph.initializer])
    kinds = ", ".join(
        [f"{count} {kind}" for kind, count in Counter([node.op_type for node in graph.node]).most_common()]
    )
    lines = [
        f"{graph.name}: opset {opsets}, IR {model.ir_version}, by {model.producer_name or 'unknown'} {model.producer_version}".rstrip(),
        f"{len(graph.node)} nodes ({kinds}), {weights:,} numbers in {len(graph.initializer)} weights",
    ]
    for title, values in (("inputs", graph.input), ("outputs", graph.output)):
        lines += [f"{title}:", *[f"  {value.name}: {_type(value.type)}" for value in values]]
    lines += [
        "weights:",
        *[f"  {tensor.name}: {_dtype(tensor.data_type)}{_dims(tensor.dims)}" for tensor in graph.initializer],
    ]
    return "\n".join([*lines, "nodes:", *_nodes(graph)])


def _nodes(graph: Any) -> Iterator[str]:
    for node in graph.node:
        call = f"{node.op_type}({', '.join(node.input)}{_attributes(node)})"
        line = node.doc_string.rpartition(" in ")[0] or node.doc_string
        yield f"  {', '.join(node.output)} = {call}" + f"   # {os.path.basename(line)}" * bool(line)


def _attributes(node: Any) -> str:
    from onnx import helper

    return "".join([f"; {helper.printable_attribute(attribute)}" for attribute in node.attribute])


def _type(kind: Any) -> str:
    tensor = kind.tensor_type
    return f"{_dtype(tensor.elem_type)}{_dims([dim.dim_param or dim.dim_value for dim in tensor.shape.dim])}"


def _dtype(number: int) -> str:
    from onnx import TensorProto

    return TensorProto.DataType.Name(number).lower()


def _dims(dims: Any) -> str:
    return f"[{', '.join(map(str, dims))}]"


def _count(dims: Any) -> int:
    count = 1
    for dim in dims:
        count *= dim
    return count
