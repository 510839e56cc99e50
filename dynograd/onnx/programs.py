"""An exported program: saving it, running it, and listing what is in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.onnx.listing import listing
from dynograd.onnx.packages import EXTERNAL_ABOVE, ModelProto, onnx_package
from dynograd.onnx.verifying import run

__all__ = ["ONNXProgram"]


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
            OnnxError: a difference is above 1e-4, or eight units in the last place of half types; or onnxruntime cannot run the model.
        """
        return self._check(self.model_proto)

    def __call__(self, *inputs: Any) -> list[Any]:
        """The model's outputs on onnxruntime, as tensors."""
        return run(self.model_proto, inputs)

    def __str__(self) -> str:
        return listing(self.model_proto)

    __repr__ = __str__


_show_plainly(globals())
