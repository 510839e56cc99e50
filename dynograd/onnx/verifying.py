"""An exported model on onnxruntime, beside the program that it was made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from dynograd.errors import OnnxError
from dynograd.onnx.packages import EXTERNAL_ABOVE, ModelProto, onnx_package
from dynograd.tensor.tensor import Tensor

__all__ = ["TOLERANCE", "difference", "run"]

TOLERANCE = 1e-4
_TOLERANCES = {"float16": 8e-3, "bfloat16": 6e-2}  # eight units in the last place
Session = Any  # onnxruntime.InferenceSession


def run(model: ModelProto, tensors: Sequence[Tensor]) -> list[Tensor]:
    """The model's outputs for tensors in the order of its inputs."""
    return _run(_session(model), tensors)


def _session(model: ModelProto) -> Session:
    runtime = onnx_package("onnxruntime", "running a model")
    size = model.ByteSize()
    if size > EXTERNAL_ABOVE:
        raise OnnxError(
            f"onnx: a model of {size:,} bytes is run from its file: program.save(path), onnxruntime.InferenceSession(path)."
        )
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    try:
        return runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except runtime.capi.onnxruntime_pybind11_state.NotImplemented as error:
        kinds = " and ".join(sorted(_kinds_of(model))) or "no floating numbers"
        raise OnnxError(
            f"onnx: onnxruntime has no kernel for a node of this model, which computes with {kinds}: {error}. The model can be saved; to run or "
            f"verify it here, export it in float32 (model.float())."
        ) from None


def _kinds_of(model: ModelProto) -> set[str]:
    """The floating types of the model's weights, inputs and outputs."""
    onnx, graph = onnx_package("onnx", "verify"), model.graph
    numbers = [tensor.data_type for tensor in graph.initializer]
    numbers += [value.type.tensor_type.elem_type for value in (*graph.input, *graph.output)]
    kinds = {onnx.TensorProto.DataType.Name(number).lower() for number in numbers}
    return {kind for kind in kinds if "float" in kind or kind == "double"}


def _run(session: Session, tensors: Sequence[Tensor]) -> list[Tensor]:
    names = [value.name for value in session.get_inputs()]
    if len(names) != len(tensors):
        raise OnnxError(f"onnx: the model has {len(names)} inputs ({', '.join(names)}), got {len(tensors)} tensors.")
    results = session.run(None, {name: tensor.detach().numpy() for name, tensor in zip(names, tensors)})
    return [Tensor.wrap(numpy.asarray(result)) for result in results]


def difference(
    model: ModelProto, program: Callable[..., Any], fed: Callable[..., Any], samples: Sequence[Sequence[Tensor]]
) -> float:
    """The largest difference between the model and the program at these inputs.

    Args:
        fed: makes the model's inputs of the program's.
    Raises:
        OnnxError: it is above the tolerance, or shapes differ.
    """
    onnx = onnx_package("onnx", "verify")
    onnx.checker.check_model(model, full_check=True)
    session = _session(model)
    most = max([_TOLERANCES.get(kind, TOLERANCE) for kind in _kinds_of(model)], default=TOLERANCE)
    names = [output.name for output in model.graph.output]
    largest = 0.0
    for sample in samples:
        for name, own, other in zip(names, program(*sample), _run(session, fed(sample))):
            ours, theirs = [numpy.asarray(tensor.detach().numpy(), numpy.float64) for tensor in (own, other)]
            shapes = [list(tensor.shape) for tensor in sample]
            if ours.shape != theirs.shape:
                raise OnnxError(
                    f"onnx.export: {name} has shape {list(ours.shape)} in the program but {list(theirs.shape)} on onnxruntime, for inputs of "
                    f"shapes {shapes}. This is a mistake of the export: please report it, and export without dynamic axes."
                )
            if not ours.size:
                continue
            same = (ours == theirs) | (numpy.isnan(ours) & numpy.isnan(theirs))
            with numpy.errstate(invalid="ignore"):
                off = numpy.where(same, 0, numpy.abs(ours - theirs))
            finite = numpy.abs(ours[numpy.isfinite(ours)])
            error = float(numpy.nan_to_num(off.max(), nan=numpy.inf)) / max(
                1.0, float(finite.max()) if finite.size else 1.0
            )
            largest = max(largest, error)
            if error > most:
                raise OnnxError(
                    f"onnx.export: {name} differs from the program by {error:.2g} on onnxruntime, for inputs of shapes {shapes}; expected at "
                    f"most {most}. This is a mistake of the export: please report it."
                )
    return largest
