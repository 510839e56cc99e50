"""Optimizers and learning rate schedules. `optimizer.py` is the machinery, `elementwise.py` what most optimizers share; each has a file."""

from dynograd.base.listing import lists
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.optim import lr_scheduler, swa_utils
from dynograd.optim.adadelta import Adadelta
from dynograd.optim.adafactor import Adafactor
from dynograd.optim.adagrad import Adagrad
from dynograd.optim.adam import Adam
from dynograd.optim.adamax import Adamax
from dynograd.optim.adamw import AdamW
from dynograd.optim.asgd import ASGD
from dynograd.optim.lbfgs import LBFGS
from dynograd.optim.muon import Muon
from dynograd.optim.nadam import NAdam
from dynograd.optim.optimizer import Optimizer
from dynograd.optim.radam import RAdam
from dynograd.optim.rmsprop import RMSprop
from dynograd.optim.rprop import Rprop
from dynograd.optim.sgd import SGD
from dynograd.optim.sharded import ZeroRedundancyOptimizer
from dynograd.optim.sparse_adam import SparseAdam

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "ZeroRedundancyOptimizer",
    "lr_scheduler",
    "swa_utils",
]
__dir__ = lists(__name__, __all__)

_show_plainly(globals())
