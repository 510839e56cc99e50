"""`python -m dynograd.convert a.pt b.safetensors`: a checkpoint of PyTorch, or of `save`, as a safetensors file. No code in it is run."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from dynograd.errors import CheckpointError
from dynograd.serialization import load, save

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; gives 0, or 1 with a message when the file cannot be read or written."""
    parser = argparse.ArgumentParser(prog="python -m dynograd.convert", description=(__doc__ or "").replace("`", ""))
    parser.add_argument("source", help="a file of torch.save or dynograd.save")
    parser.add_argument("target", help="the safetensors file to write")
    given = parser.parse_args(arguments)
    try:
        save(load(given.source, map_location="cpu"), given.target)
    except (CheckpointError, TypeError, OSError) as error:
        print(f"convert: {error}", file=sys.stderr)
        return 1
    print(f"{given.target}: {os.path.getsize(given.target)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
