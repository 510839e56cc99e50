"""How ONNX models are read: a family of operators per file, and the table of them."""

from dynograd.onnx.reading import (
    control,
    elementwise,
    forests,
    gathers,
    layouts,
    losses,
    ml,
    norms,
    products,
    quantised,
    recurrent,
    reductions,
    resizing,
)

FAMILIES = (
    control,
    elementwise,
    forests,
    gathers,
    layouts,
    losses,
    ml,
    norms,
    products,
    quantised,
    recurrent,
    reductions,
    resizing,
)
