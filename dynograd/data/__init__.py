"""Data sets, samplers, collation and the DataLoader, named as in `torch.utils.data`; BucketBatchSampler and collate_pad for variable length.

>>> dataset = TensorDataset(tensor([[0.0, 1.0], [2.0, 3.0]]), tensor([0, 1]))
>>> for x, y in DataLoader(dataset, batch_size=2):
...     print(x.shape, y.tolist())
torch.Size([2, 2]) [0, 1]
"""

from dynograd.data.collate import collate_pad, default_collate, default_convert
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
from dynograd.data.loader import DataLoader
from dynograd.data.sampler import (
    BatchSampler,
    BucketBatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from dynograd.data.worker import WorkerInfo, get_worker_info

__all__ = [
    "BatchSampler",
    "BucketBatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "WorkerInfo",
    "collate_pad",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]
