"""An exported program: saving it, running it, and listing what is in it; and the names that PyTorch gives to options of `export`."""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import Enum
from typing import Any

from dynograd.base.files import Output, write_atomically
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.errors import CheckpointError, OnnxError
from dynograd.onnx.listing import listing
from dynograd.onnx.packages import EXTERNAL_ABOVE, ModelProto, onnx_package
from dynograd.onnx.verifying import run

__all__ = ["ONNXProgram", "OperatorExportTypes", "TrainingMode"]


class TrainingMode(Enum):
    """The mode of the model while it is exported."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(Enum):
    """What ops become that ONNX does not have. Here each is made of ONNX's own, or refused, whatever is asked for."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


class ONNXProgram:
    """What `dynograd.onnx.export` gives.

    Args:
        model: the `onnx.ModelProto`, as `model_proto`.
        check: compares onnxruntime with the program; see `verify`.

    >>> program = dynograd.onnx.export(dynograd.nn.Linear(4, 2), (dynograd.ones(3, 4),))
    >>> [tensor.name for tensor in program.model_proto.graph.initializer]
    ['weight', 'bias']
    """

    def __init__(self, model: ModelProto, check: Callable[[ModelProto], float]) -> None:
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
            OnnxError: the file system refused something; what was at the path before is untouched.
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
            _put(onnx, model, os.fspath(destination), apart)
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
            OnnxError: a difference is above 1e-4, or eight units in the last place of half types; or onnxruntime cannot run the model.
        """
        return self._check(self.model_proto)

    def __call__(self, *inputs: Any) -> list[Any]:
        """The model's outputs on onnxruntime, as tensors."""
        return run(self.model_proto, inputs)

    def __str__(self) -> str:
        return listing(self.model_proto)

    __repr__ = __str__


def _put(onnx: Any, model: ModelProto, path: str, apart: bool) -> None:
    """Puts the model at `path`, and where `apart` its large weights beside it; files that were there stay until all is written."""
    pieces = _moved_out(onnx, model, f"{os.path.basename(path)}.data") if apart else []

    def write_weights(output: Output) -> None:
        for piece in pieces:
            output.write(piece)

    def write(output: Output) -> None:
        output.write(model.SerializeToString())
        if apart:
            write_atomically(f"{path}.data", write_weights, _WHO)

    try:
        write_atomically(path, write, _WHO)
    except CheckpointError as error:
        raise OnnxError(str(error)) from error


def _moved_out(onnx: Any, model: ModelProto, location: str) -> list[bytes]:
    """Takes large weights out of the model, which names their places in the file `location`: what that file holds."""
    pieces, end = [], 0
    for tensor in model.graph.initializer:
        if len(tensor.raw_data) < _LARGE:
            continue
        gap = -end % _BOUNDARY
        pieces += [bytes(gap), tensor.raw_data]
        onnx.external_data_helper.set_external_data(tensor, location, end + gap, len(tensor.raw_data))
        end += gap + len(tensor.raw_data)
        tensor.ClearField("raw_data")
    return pieces


_WHO = "ONNXProgram.save"
_LARGE = 1024  # bytes: smaller weights stay in the model, as onnx leaves them there
_BOUNDARY = 4096  # bytes: a page of memory, so that a runtime can map each weight

_show_plainly(globals())
