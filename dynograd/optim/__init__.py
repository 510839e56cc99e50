"""Optimizers and learning rate schedules. `optimizer.py` is the machinery; SGD, Adam and AdamW have a file each."""

from dynograd.optim import lr_scheduler
from dynograd.optim.adam import Adam
from dynograd.optim.adamw import AdamW
from dynograd.optim.optimizer import Optimizer
from dynograd.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]
