"""Programs that leave Python: a module or function as a graph of calls with its weights, in one file that runs no code.

`save_program` writes one and `load_program` reads it; `export`, `save` and `load` are the same with PyTorch's names.
`python -m dynograd.export show file` lists what is in one.

>>> import os, tempfile
>>> path = os.path.join(tempfile.mkdtemp(), "model.dg")
>>> model = dynograd.nn.Linear(2, 1)
>>> program = dynograd.export.save_program(model, (dynograd.ones(3, 2),), path, dynamic_shapes={"input": {0: "batch"}})
>>> dynograd.equal(dynograd.export.load_program(path)(dynograd.ones(5, 2)), model(dynograd.ones(5, 2)))
True
"""

from __future__ import annotations

import sys

from dynograd.compat import refused
from dynograd.compat.import_paths import below
from dynograd.export.dims import Dim, dims
from dynograd.export.exporting import export
from dynograd.export.files import load, load_program, save, save_program
from dynograd.export.programs import ExportedProgram

__all__ = ["Dim", "ExportedProgram", "dims", "export", "load", "load_program", "save", "save_program"]


_below = below("export")


def __getattr__(name: str) -> object:
    """The other names of torch.export, which say what is here when they are called."""
    if name not in refused.modules()["export"][1] and f"{name}()" not in refused.modules()["export"][1]:
        return _below(name)
    refused.fill(sys.modules[__name__])
    return globals()[name]
