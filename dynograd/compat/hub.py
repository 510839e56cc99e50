"""`torch.hub`: what is already on this machine is read; nothing is downloaded, and no repository's code is run."""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import urlparse

from tqdm import tqdm  # noqa: F401

from dynograd.base import stubs
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.saving.serialization import load as _read

globals().update(stubs.names("hub"))

__all__ = ["get_dir", "load_state_dict_from_url", "set_dir", *stubs.names("hub")]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_folder: str | None = None


def _get_torch_home() -> str:
    """`$TORCH_HOME`, or `torch` in the user's cache folder."""
    caches = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(caches, "torch")))


def get_dir() -> str:
    """The folder in which files lie that were downloaded, by PyTorch or by hand.

    Returns:
        A path.

    >>> import os
    >>> os.path.basename(dynograd.hub.get_dir())
    'hub'
    """
    return _folder or os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Names another folder for `get_dir`.

    Args:
        d: its path.

    >>> folder = dynograd.hub.get_dir()
    >>> dynograd.hub.set_dir(folder)
    """
    global _folder
    _folder = os.path.expanduser(os.fspath(d))


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: object = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> dict[str, Any]:
    """The weights of an address, if their file already lies in `model_dir` (`get_dir()/checkpoints`).

    Args:
        url: the address, whose last part names the file.
        model_dir: the folder; None is `get_dir()/checkpoints`.
        map_location: as in `load`.
        progress, weights_only: kept for compatibility.
        check_hash: compare the checksum in the file's name.
        file_name: its name, if it is another.
    Returns:
        A dict of tensors.
    Raises:
        FileNotFoundError: it does not; nothing is downloaded.

    >>> dynograd.hub.load_state_dict_from_url("https://example.org/weights.pt")
    Traceback (most recent call last):
    FileNotFoundError: ...
    """
    folder = model_dir or os.path.join(get_dir(), "checkpoints")
    path = os.path.join(folder, file_name or os.path.basename(urlparse(url).path))
    if not os.path.exists(path):
        raise FileNotFoundError(
            f"hub.load_state_dict_from_url: nothing is downloaded, and there is no {path}. Download {url} yourself and put it there."
        )
    return _read(path, map_location)


load_url = load_state_dict_from_url

_show_plainly(globals())
