"""`torch.utils.data._utils.collate`: collation, and its form with functions of one's own for some types."""

from dynograd.data.collate import collate, default_collate, default_collate_fn_map, default_convert

__all__ = ["collate", "default_collate", "default_collate_fn_map", "default_convert"]
