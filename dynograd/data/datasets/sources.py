"""Where data sets come from: a folder of the user's first, the cache folder next, the source's address last, and only when asked."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import Any

from dynograd.base.files import Output, write_atomically
from dynograd.errors import CheckpointError, DownloadError

__all__ = ["SOURCES", "Source", "cache_folder", "download", "find"]

_PIECE = 1 << 18
_TIMEOUT = 30.0


@dataclass(frozen=True)
class Source:
    """A file on the net, and what it must be."""

    url: str
    sha256: str
    size: int


_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
SOURCES = {
    "mnist/train-images-idx3-ubyte.gz": Source(
        _MNIST + "train-images-idx3-ubyte.gz",
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        9912422,
    ),
    "mnist/train-labels-idx1-ubyte.gz": Source(
        _MNIST + "train-labels-idx1-ubyte.gz", "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c", 28881
    ),
    "mnist/t10k-images-idx3-ubyte.gz": Source(
        _MNIST + "t10k-images-idx3-ubyte.gz",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        1648877,
    ),
    "mnist/t10k-labels-idx1-ubyte.gz": Source(
        _MNIST + "t10k-labels-idx1-ubyte.gz", "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6", 4542
    ),
    "tinyshakespeare/input.txt": Source(
        "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
        "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
        1115394,
    ),
}


def cache_folder() -> str:
    """The folder for what was fetched: `$DYNOGRAD_DATA`, or `~/.cache/dynograd/data`.

    Returns:
        str.

    >>> import os
    >>> before, os.environ["DYNOGRAD_DATA"] = os.environ.get("DYNOGRAD_DATA"), "/somewhere"
    >>> cache_folder()
    '/somewhere'
    >>> _ = os.environ.pop("DYNOGRAD_DATA") if before is None else os.environ.update(DYNOGRAD_DATA=before)
    """
    return os.environ.get("DYNOGRAD_DATA") or os.path.join(os.path.expanduser("~"), ".cache", "dynograd", "data")


def find(name: str, root: Any = None, may_download: bool = False, within: tuple[str, ...] = ("",)) -> str:
    """The path of a file of `SOURCES`.

    Args:
        name: its key; the part behind the slash is the file's name, with or without `.gz`.
        root: folder to look in; the cache folder by default.
        may_download: fetch it if it is not there.
        within: folders below `root` to look in too.
    Returns:
        str.
    Raises:
        FileNotFoundError: it is not there.
        DownloadError: it could not be fetched, or is not what it must be.

    >>> try:
    ...     find(next(iter(SOURCES)), root="empty-folder")
    ... except FileNotFoundError as error:
    ...     print("was looked for in" in str(error))
    True
    """
    folder = cache_folder() if root is None else os.fspath(root)
    base = name.rpartition("/")[2]
    names = (base, base.removesuffix(".gz"), f"{name.partition('/')[0]}-{base}")
    if root is None:
        within = (name.partition("/")[0], *within)
    for inner in within:
        for file in names:
            path = os.path.join(folder, inner, file)
            if os.path.isfile(path):
                return path
    if not may_download:
        places = ", ".join(sorted({os.path.join(folder, inner) for inner in within}))
        raise FileNotFoundError(
            f"{names[0]} or {names[1]} was looked for in {places}, and is not there. Put it there, pass the folder it is in as root=, or "
            f"download=True to fetch it from {SOURCES[name].url}."
        )
    source = SOURCES[name]
    return download(source.url, source.sha256, os.path.join(folder, within[0], base), at_most=source.size)


def download(url: str, sha256: str, path: Any, *, at_most: int = 1 << 30, timeout: float = _TIMEOUT) -> str:
    """Fetches a file, unless it is at `path` already, and returns the path. It is written completely and as expected, or not at all.

    Args:
        url: an address of http or https.
        sha256: what the content's SHA-256 must be, in hexadecimal.
        path: where to; folders are made.
        at_most: bytes that the content may have.
        timeout: seconds to wait for an answer.
    Returns:
        the path, str.
    Raises:
        DownloadError: no connection, an answer of another kind, too much, or other content; the message says how to do it by hand.

    >>> import hashlib
    >>> from pathlib import Path
    >>> _ = Path("note.txt").write_text("here already")
    >>> Path(download("https://example.org/note.txt", hashlib.sha256(b"here already").hexdigest(), "note.txt")).name
    'note.txt'
    """
    target = os.fspath(path)
    by_hand = f"You can fetch {url} by hand and put it at {target!r}"
    if not url.startswith(("https://", "http://")):
        raise DownloadError(f"download: expected an address of http or https, got {url!r}.")
    if os.path.isfile(target):
        if (checksum := _sha256_of(target)) == sha256.lower():
            return target
        raise DownloadError(
            f"download: {target!r} has SHA-256 {checksum}, expected {sha256}. Remove it to fetch it again from {url}, or pass its path to the reader "
            f"if it is what you want."
        )
    try:
        os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
        write_atomically(target, lambda output: _fetch(url, sha256.lower(), output, at_most, timeout), "download")
    except CheckpointError as error:  # the disk, or what _fetch met, which is an OSError too
        cause = error.__cause__
        if isinstance(cause, DownloadError):
            raise DownloadError(f"{cause} {by_hand}.") from cause.__cause__
        raise DownloadError(f"{error} {by_hand}.") from error
    except OSError as error:
        raise DownloadError(f"download: could not write {target!r}: {error.strerror or error}. {by_hand}.") from error
    return target


def _fetch(url: str, sha256: str, output: Output, at_most: int, timeout: float) -> None:
    import http.client
    import urllib.error
    import urllib.request

    digest, size = hashlib.sha256(), 0
    failures = (OSError, http.client.HTTPException, ValueError)
    try:
        answer = urllib.request.urlopen(url, timeout=timeout)
    except urllib.error.HTTPError as error:
        error.close()
        raise DownloadError(f"download: {url} answered {error.code} {error.reason}.") from error
    except failures as error:
        raise _unreachable(url, error) from error
    with answer:
        while True:
            try:
                piece = answer.read(_PIECE)
            except failures as error:
                raise _unreachable(url, error) from error
            if not piece:
                break
            size += len(piece)
            if size > at_most:
                raise DownloadError(f"download: expected at most {at_most} bytes from {url}, got more.")
            digest.update(piece)
            output.write(piece)
    if digest.hexdigest() != sha256:
        raise DownloadError(
            f"download: what came from {url} ({size} bytes) has SHA-256 {digest.hexdigest()}, expected {sha256}."
        )


def _unreachable(url: str, error: Exception) -> DownloadError:
    reason = getattr(error, "reason", None) or error
    return DownloadError(
        f"download: could not reach {url} ({reason}). Is this machine offline, or behind a proxy (https_proxy)?"
    )


def _sha256_of(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
