"""`torch.utils.checkpoint`: see `dynograd.transforms.checkpoint`."""

from dynograd.transforms.checkpoint import *  # noqa: F403
from dynograd.transforms.checkpoint import __all__  # noqa: F401
