"""`torch.utils.data._utils.collate`: collation, and its form with functions of one's own for some types."""

import re
from typing import Any

from dynograd.data.collate import collate, default_collate, default_collate_fn_map, default_convert

__all__ = ["collate", "default_collate", "default_collate_fn_map", "default_convert"]

np_str_obj_array_pattern = re.compile(r"[SaUO]")


def _of_kind(batch: Any, *, collate_fn_map: Any = None) -> object:
    """A batch of values of one type, as `default_collate` puts them together."""
    return default_collate(batch)


collate_tensor_fn = collate_numpy_array_fn = collate_numpy_scalar_fn = collate_float_fn = collate_int_fn = _of_kind


def collate_str_fn(batch: Any, *, collate_fn_map: Any = None) -> object:
    """Texts stay a list."""
    return batch
