"""ONNX: `export` writes models for other runtimes, `load` makes a module of a model that another library wrote;
`python -m dynograd.onnx show model.onnx` lists what is in one.

It needs the extra `onnx` (`pip install 'dynograd[onnx]'`), which is imported where it is first used.
"""

import sys

from dynograd.compat import refused
from dynograd.compat.exporting import is_in_onnx_export
from dynograd.compat.import_paths import below
from dynograd.errors import OnnxError
from dynograd.onnx.exporting import export
from dynograd.onnx.loading import OnnxModule, load
from dynograd.onnx.programs import ONNXProgram, OperatorExportTypes, TrainingMode
from dynograd.onnx.reading.registry import operator

__all__ = [
    "ONNXProgram",
    "OnnxError",
    "OnnxExporterError",
    "OnnxModule",
    "OperatorExportTypes",
    "TrainingMode",
    "export",
    "is_in_onnx_export",
    "load",
    "operator",
]

OnnxExporterError = OnnxError

refused.fill(sys.modules[__name__])  # the other names of torch.onnx, which say what is here
__getattr__ = below("onnx")
