"""Learning rate schedules: each sets the `lr` of an optimizer's groups when its `step()` is called.

`base.py` is the machinery; `decays.py`, `cosines.py`, `cycles.py`, `plateaus.py` and `combinations.py` hold the schedules.
"""

from dynograd.base.listing import lists
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.optim.lr_scheduler.base import LRScheduler, _LRScheduler
from dynograd.optim.lr_scheduler.combinations import ChainedScheduler, SequentialLR
from dynograd.optim.lr_scheduler.cosines import CosineAnnealingLR, CosineAnnealingWarmRestarts
from dynograd.optim.lr_scheduler.cycles import CyclicLR, OneCycleLR
from dynograd.optim.lr_scheduler.decays import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from dynograd.optim.lr_scheduler.plateaus import ReduceLROnPlateau

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]
__dir__ = lists(__name__, __all__)

_show_plainly(globals())
