"""`torch.utils.data.distributed`: the sampler for several processes."""

from dynograd.data.sampler import DistributedSampler

__all__ = ["DistributedSampler"]
