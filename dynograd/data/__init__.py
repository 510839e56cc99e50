"""Data sets, samplers, collation and the DataLoader, named as in `torch.utils.data`.

For samples of variable length: `BucketBatchSampler` puts similar lengths in a batch, `collate_pad` pads it.

>>> dataset = TensorDataset(tensor([[0.0, 1.0], [2.0, 3.0]]), tensor([0, 1]))
>>> for x, y in DataLoader(dataset, batch_size=2):
...     print(tuple(x.shape), y.tolist())
(2, 2) [0, 1]
"""

from dynograd.base.lazy_modules import module_below
from dynograd.base.listing import lists
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.data.balanced import DistributedTokenBatchSampler
from dynograd.data.buckets import BucketBatchSampler, TokenBatchSampler
from dynograd.data.collate import default_collate, default_convert
from dynograd.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from dynograd.data.frozen import FrozenDataset, freeze
from dynograd.data.loader import DataLoader
from dynograd.data.sampler import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from dynograd.data.statistics import Statistics, progress
from dynograd.data.variable_length import collate_pad, collate_ragged
from dynograd.data.worker import WorkerInfo, get_worker_info

__all__ = [
    "BatchSampler",
    "BucketBatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "DistributedTokenBatchSampler",
    "FrozenDataset",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Statistics",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "TokenBatchSampler",
    "WeightedRandomSampler",
    "WorkerInfo",
    "collate_pad",
    "collate_ragged",
    "default_collate",
    "default_convert",
    "freeze",
    "get_worker_info",
    "progress",
    "random_split",
]
__dir__ = lists(__name__, (*__all__, "datasets"))


def __getattr__(name: str) -> object:
    """The readers of files and the data pipes are imported when they are first named."""
    module = module_below(__name__, name)
    if module is None:
        raise AttributeError(f"module 'dynograd.data' has no attribute {name!r}")
    return module


_show_plainly(globals())
