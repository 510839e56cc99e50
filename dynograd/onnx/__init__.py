"""ONNX: models that leave for other runtimes. `export` writes them; `python -m dynograd.onnx show model.onnx` lists what is in one.

It needs the extra `onnx` (`pip install 'dynograd[onnx]'`), which is imported where it is first used.
"""

import sys

from dynograd.compat import refused
from dynograd.compat.import_paths import below
from dynograd.onnx.exporting import export
from dynograd.onnx.programs import ONNXProgram
from dynograd.onnx.refusals import OnnxError

__all__ = ["ONNXProgram", "OnnxError", "export"]

refused.fill(sys.modules[__name__])  # the other names of torch.onnx, which say what is here
__getattr__ = below("onnx")
