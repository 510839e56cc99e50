"""`torch.utils.data.sampler`: samplers."""

from dynograd.data.sampler import *  # noqa: F403
from dynograd.data.sampler import __all__  # noqa: F401
