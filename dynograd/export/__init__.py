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

from dynograd.base.listing import lists
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.compat.import_paths import below
from dynograd.compat.refused import others
from dynograd.export.dynamic_shapes import Dim, dims
from dynograd.export.exported_program import ExportedProgram
from dynograd.export.exporting import export
from dynograd.export.files import load, load_program, save, save_program

__all__ = ["Dim", "ExportedProgram", "dims", "export", "load", "load_program", "save", "save_program"]
__dir__ = lists(__name__, __all__)
__getattr__ = others("export", below("export"))

_show_plainly(globals())
