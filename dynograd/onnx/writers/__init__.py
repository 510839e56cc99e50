"""What writes ops as ONNX nodes, one file for each family of ops."""

from dynograd.onnx.writers import (
    elementwise,
    images,
    layouts,
    lookups,
    norms,
    orders,
    picks,
    products,
    recurrent,
    reductions,
    scans,
    segments,
    series,
    spectra,
    transforms,
)
from dynograd.onnx.writers.structures import write_structure
from dynograd.onnx.writers.writing import form_of, write_call

__all__ = ["form_of", "write_call", "write_structure"]
