"""ONNX: `load` makes a module of a model that another library wrote. It needs the extra `onnx` (`pip install 'dynograd[onnx]'`)."""

from dynograd.onnx.loading import OnnxModule, load

__all__ = ["OnnxModule", "load"]
