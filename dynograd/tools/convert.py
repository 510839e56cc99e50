"""`python -m dynograd.convert a.pt b.safetensors`: checkpoints of PyTorch, or of `save`, as safetensors files. No code in them is run.

Sources may also be NumPy's .npz and .gguf files; a target that ends in .pt or .npz is written for PyTorch or NumPy. A folder of shards
(model.safetensors.index.json, pytorch_model.bin.index.json) is read file by file. Into a folder, or with --max-shard-size, shards are
written.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from dynograd.saving import sharding
from dynograd.saving.serialization import load, save
from dynograd.utils import programs

__all__ = ["main"]

_EPILOG = """examples:
  python -m dynograd.convert model.pt model.safetensors
  python -m dynograd.convert pytorch_model/ safetensors_model/
  python -m dynograd.convert model.pt shards/ --max-shard-size 2GB
  python -m dynograd.convert shards/ model.safetensors
  python -m dynograd.convert model.safetensors model.pt
  python -m dynograd.convert model.gguf model.npz
"""
_FORMATS = {".safetensors": None, ".pt": "pt", ".npz": "npz"}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; gives 0, or 2 with a message when something cannot be read or written."""
    parser = argparse.ArgumentParser(
        prog="python -m dynograd.convert",
        description=(__doc__ or "").replace("`", ""),
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "source",
        help="a file of torch.save, dynograd.save or safetensors, .npz, .gguf; a folder of shards, or its index",
    )
    parser.add_argument(
        "target",
        help="the file to write: .safetensors, .pt or .npz; a folder (it exists, or the name ends in /) for shards",
    )
    parser.add_argument(
        "--max-shard-size", help="the largest file, such as 5GB or 200MiB; the target is a folder then (5GB)"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress, and no words when all went well")
    options = parser.parse_args(arguments)
    return programs.run(lambda: _convert_and_tell(options), "convert", (TypeError, ValueError, RuntimeError))


def _convert_and_tell(options: argparse.Namespace) -> None:
    written = _convert(options)
    if not options.quiet:
        for path in written:
            print(f"{path}: {os.path.getsize(path)} bytes")


def _convert(options: argparse.Namespace) -> list[str]:
    target = options.target
    into_folder = options.max_shard_size is not None or target.endswith(("/", os.sep)) or os.path.isdir(target)
    ending = os.path.splitext(target)[1]
    if not into_folder and ending not in _FORMATS:
        raise ValueError(
            f"the target {target!r} is neither a .safetensors file (or .pt, .npz) nor a folder. Name it so, or end it with / for a folder of "
            f"shards."
        )
    home = options.source if os.path.isdir(options.source) else os.path.dirname(options.source)
    if into_folder and sharding.is_sharded(options.source) and os.path.abspath(home) == os.path.abspath(target):
        raise ValueError(f"the target {target!r} is the folder of the source. Write into another one.")
    if not into_folder:
        save(_whole(options), target, format=_FORMATS[ending])
        return [target]
    size = sharding.size_of(options.max_shard_size or "5GB")
    names = sharding.save(_named(options), target, size, lambda tensors, path: save(tensors, path), "convert")
    return [os.path.join(target, name) for name in names]


def _parts(options: argparse.Namespace) -> Iterator[Any]:
    """What the files of the source hold, one after the other, with their progress on a terminal."""
    if not sharding.is_sharded(options.source):
        yield load(options.source, map_location="cpu")
        return
    shards = sharding.Shards(options.source, lambda path: load(path, map_location="cpu"))
    if options.quiet or not sys.stderr.isatty():
        yield from (tensors for _, tensors in shards)
        return
    from tqdm import tqdm

    for _, tensors in tqdm(shards, total=len(shards.files), unit="file", desc="convert"):
        yield tensors


def _whole(options: argparse.Namespace) -> Any:
    parts = list(_parts(options))
    if len(parts) == 1:
        return parts[0]
    return {name: tensor for part in parts for name, tensor in part.items()}


def _named(options: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """The tensors by name; at most one file of the source is in memory."""
    for part in _parts(options):
        if not isinstance(part, dict):
            raise TypeError(
                f"{options.source} holds a {type(part).__name__}, and only dicts of tensors can be spread over files."
            )
        yield from part.items()


if __name__ == "__main__":
    sys.exit(main())
