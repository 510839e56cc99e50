"""`functorch` is `dynograd.func` here."""

import sys

__dynograd__ = True

import dynograd.as_torch

sys.modules[__name__] = dynograd.as_torch.module(__name__)
