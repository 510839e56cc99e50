"""`torch.hub` refuses: it would download programs and run them."""

from __future__ import annotations

from typing import Any

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]


def _refusal(name: str, way_out: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        asked = f" (asked for {args[0]!r})" if args else ""
        raise NotImplementedError(f"hub.{name}: nothing is downloaded{asked}. {way_out}")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"Refuses: {way_out}"
    return refuse


_CODE = "Clone the repository, look at it and import it; load its weights with load(path) from a safetensors file."
_FILE = (
    "Download the file yourself and load(path) it; .pt files are converted to safetensors where PyTorch is installed."
)
load = _refusal("load", _CODE)
list = _refusal("list", _CODE)
help = _refusal("help", _CODE)
load_state_dict_from_url = _refusal("load_state_dict_from_url", _FILE)
download_url_to_file = _refusal("download_url_to_file", "Download the file yourself.")
get_dir = _refusal("get_dir", "There is no folder of downloads.")
set_dir = _refusal("set_dir", "There is no folder of downloads.")
