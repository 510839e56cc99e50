"""`torch.utils.data`: everything in `dynograd.data` under the name that PyTorch programs import."""

from dynograd.data import *  # noqa: F403
from dynograd.data import __all__  # noqa: F401
