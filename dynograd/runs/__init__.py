"""Runs that resume bit for bit: `save_run` and `load_run` for programs that write their own loop, `Run` for the loop itself.

>>> import os, tempfile
>>> path = os.path.join(tempfile.mkdtemp(), "run.safetensors")
>>> model = dynograd.nn.Linear(2, 1)
>>> saved = dynograd.save_run(path, model=model, extra={"epoch": 1})
>>> dynograd.load_run(path, model=model).extra
{'epoch': 1}
"""

from dynograd.base.listing import lists
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.runs.run import Run
from dynograd.runs.saving import SavedRun, load_run, save_run, saved_runs
from dynograd.runs.stopping import StopRequests

__all__ = ["Run", "SavedRun", "StopRequests", "load_run", "save_run", "saved_runs"]
__dir__ = lists(__name__, __all__)

_show_plainly(globals())
