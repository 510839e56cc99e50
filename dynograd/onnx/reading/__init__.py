"""How ONNX models are read: a family of operators per file, the table of them, and the writer of a model's code."""

from dynograd.onnx.reading import control, elementwise, gathers, layouts, norms, products, quantised, recurrent, reductions

FAMILIES = (control, elementwise, gathers, layouts, norms, products, quantised, recurrent, reductions)
