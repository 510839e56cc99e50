"""`torch.utils.data.dataset`: data sets."""

from dynograd.data.dataset import *  # noqa: F403
from dynograd.data.dataset import __all__  # noqa: F401
