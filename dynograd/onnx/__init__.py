"""ONNX: `load` makes a module of a model that another library wrote. It needs the extra `onnx` (`pip install 'dynograd[onnx]'`)."""

import sys

from dynograd.compat import refused
from dynograd.compat.import_paths import below
from dynograd.errors import OnnxError
from dynograd.onnx.loading import OnnxModule, load
from dynograd.onnx.reading.registry import operator

__all__ = ["OnnxError", "OnnxModule", "load", "operator"]

refused.fill(sys.modules[__name__])  # the other names of torch.onnx, which say what is here
__getattr__ = below("onnx")
