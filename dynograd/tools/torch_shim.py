"""`python -m dynograd make-torch-shim`: a distribution `torch` of a few hundred bytes whose `import torch` is dynograd.

For tools that look at what is installed: `pip install accelerate` wants a torch, and this is one. It needs dynograd beside it.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from dynograd.utils import programs

__all__ = ["main", "make_wheel"]

_SITE = Path(__file__).parent.parent / "as_torch" / "site"
_WHEEL = "Wheel-Version: 1.0\nGenerator: dynograd\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the same file from the same content


def make_wheel(folder: Path) -> Path:
    """Writes the wheel into a folder; its path. The same dynograd writes the same bytes."""
    (information,) = _SITE.glob("*.dist-info")
    files = {
        file.relative_to(_SITE).as_posix(): file.read_bytes() for file in sorted(_SITE.rglob("*")) if _belongs(file)
    }
    files[f"{information.name}/WHEEL"] = _WHEEL.encode()
    record = f"{information.name}/RECORD"
    lines = [f"{name},sha256={_digest(content)},{len(content)}\n" for name, content in files.items()]
    files[record] = "".join([*lines, f"{record},,\n"]).encode()
    path = folder / f"{information.name.removesuffix('.dist-info')}-py3-none-any.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in files.items():
            wheel.writestr(zipfile.ZipInfo(name, _LONG_AGO), content)
    return path


def _belongs(file: Path) -> bool:
    return file.is_file() and file.suffix != ".pyc" and file.name not in ("INSTALLER", "RECORD")


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its status."""
    parser = argparse.ArgumentParser(
        prog="python -m dynograd make-torch-shim", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("folder", nargs="?", default=".", type=Path, help="where to write the wheel (here)")
    parser.add_argument("--install", action="store_true", help="install it into this environment, too")
    options = parser.parse_args(arguments)
    return programs.run(lambda: _make(options), "make-torch-shim")


def _make(options: argparse.Namespace) -> int:
    if options.install:
        _refuse_to_replace()
    path = make_wheel(options.folder)
    if not options.install:
        print(f"{path}\nInstall it: python -m pip install {path}")
        return 0
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--force-reinstall", "--quiet", str(path)]
    return subprocess.run(command, check=False).returncode


def _refuse_to_replace() -> None:
    for distribution in metadata.distributions(name="torch"):
        if "dynograd" not in distribution.version:
            raise programs.UsageError(
                f"PyTorch {distribution.version} is installed in {sys.prefix}; the stand-in would take its place. "
                f"Use another environment, or run programs by `python -m dynograd SCRIPT`, which leaves PyTorch alone."
            )


if __name__ == "__main__":
    sys.exit(main())
