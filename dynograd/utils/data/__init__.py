"""`torch.utils.data`: everything in `dynograd.data` under the name, and the import paths, that PyTorch programs use."""

from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.data import *
from dynograd.data import __all__ as _names
from dynograd.data import datapipes as _datapipes
from dynograd.data.datapipes import *
from dynograd.utils.data import _utils, dataloader, dataset, distributed, sampler
from dynograd.utils.data.dataloader import _DatasetKind

__all__ = [*_names, *_datapipes.__all__, "_DatasetKind", "_utils", "dataloader", "dataset", "distributed", "sampler"]

_show_plainly(globals())
