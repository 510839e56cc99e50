"""Answers requests over HTTP: `python -m dynograd.serve model.dg --port 8000`, or `app.py`, or `module:object`.

Files of `dynograd.export.save_program` are models, `NAME=FILE` names them and `NAME@VERSION=FILE` their versions. An object is a
`dynograd.serving.Service` (in a file without a name behind it: `service`), or a function of one example, which is served under its own name.
uvicorn is the server (extra `serve`), and starts a worker process anew that has died. On SIGTERM and Ctrl-C what was accepted is answered first.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import runpy
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynograd.kernels.build import packs
from dynograd.kernels.build.batch_invariance import use_batch_invariant
from dynograd.tools.serving.service import Service
from dynograd.utils import programs

if TYPE_CHECKING:
    from starlette.applications import Starlette

__all__ = ["app_of_worker", "main", "service_of"]

_OPTIONS = "DYNOGRAD_SERVE"  # what worker processes are told
_LIMITS = ("max_length", "max_rows", "max_tokens", "max_wait", "queue")  # of programs
_BROKEN = 3  # the status by which uvicorn knows that a worker would fail again
_KEPT_ALIVE = 75  # seconds that a client's connection may be idle: longer than those of proxies are, which would send into one that is being closed
_HANG = 60  # seconds after which a worker that does not let its other threads run is killed


def service_of(*targets: str, batch_invariant: bool = False, **limits: Any) -> Service:
    """The service that a command line names.

    Args:
        *targets: at most one of `app.py`, `app.py:name`, `module:name`; and files of programs, `model.dg`, `name=model.dg`, `name@version=model.dg`.
        batch_invariant: whether programs give each request the bits that it would have alone.
        **limits: of `Service.add_program`.
    Returns:
        A service.
    Raises:
        programs.UsageError: there is no such file, module or object, or it is no service, function or program.
    """
    apps = [target for target in targets if not _is_program(target)]
    if len(apps) > 1:
        raise programs.UsageError(f"serve: expected one app, got {', '.join(apps)}. Add their models to one Service.")
    service = _service_of_app(apps[0]) if apps else Service()
    numbers: dict[str, int] = {}
    for target in targets:
        if _is_program(target):
            name, version, path = _program_parts(target)
            numbers[name] = numbers.get(name, 0) + 1
            try:
                with use_batch_invariant(batch_invariant):
                    service.add_program(name, path, version=version or str(numbers[name]), **limits)
            except (FileNotFoundError, ValueError) as error:  # ProgramError is one
                raise programs.UsageError(f"serve: {error}") from None
    return service


def _is_program(target: str) -> bool:
    return "=" in target or target.endswith(".dg") or (not target.endswith(".py") and Path(target).is_file())


def _program_parts(target: str) -> tuple[str, str, str]:
    """(name, version or "", path) of `[NAME[@VERSION]=]FILE`; without a name it is that of the file."""
    label, named, path = target.rpartition("=")
    if not Path(path).is_file():
        raise programs.UsageError(f"serve: there is no file {path!r}.")
    name, _, version = label.partition("@")
    return name if named else re.sub(r"[^A-Za-z0-9._-]", "-", Path(path).stem), version, path


def _service_of_app(target: str) -> Service:
    place, name = _parts(target)
    if place.endswith(".py"):
        sys.path.insert(0, str(Path(place).resolve().parent))
        names = runpy.run_path(place, run_name=Path(place).stem)
    else:
        sys.path.insert(0, os.getcwd())
        try:
            names = vars(importlib.import_module(place))
        except ModuleNotFoundError as error:
            raise programs.UsageError(f"serve: there is no module {error.name!r}.") from None
    if name not in names:
        raise programs.UsageError(
            f"serve: {place} has no {name!r}. Name a dynograd.serving.Service or a function: {place}:NAME."
        )
    value = names[name]
    if isinstance(value, Service):
        return value
    if not callable(value):
        raise programs.UsageError(
            f"serve: expected {target} to be a Service or a function, got {type(value).__name__}."
        )
    service = Service()
    service.add(name, value)
    return service


def _parts(target: str) -> tuple[str, str]:
    """(a file or a module, the name in it)."""
    place, _, name = target.rpartition(":") if not target.endswith(".py") else (target, "", "service")
    if not place:
        raise programs.UsageError(f"serve: expected model.dg, app.py, app.py:name or module:name, got {target!r}.")
    if place.endswith(".py") and not Path(place).is_file():
        raise programs.UsageError(f"serve: there is no file {place!r}.")
    return place, name


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line.

    Args:
        arguments: words of the command line; None: those of the process.
    Returns:
        The exit status.
    """
    return programs.run(lambda: _serve(_parser().parse_args(arguments)), "dynograd.serve")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m dynograd.serve", description=(__doc__ or "").split("\n\n")[0])
    add = parser.add_argument
    add("targets", nargs="+", metavar="TARGET", help="[NAME[@VERSION]=]model.dg, app.py, app.py:name or module:name")
    add("--host", default="127.0.0.1", help="address to listen at; 0.0.0.0 is every one (%(default)s)")
    add("--port", type=programs.whole_number(0), default=8000, help="0: any free one (%(default)s)")
    add("--workers", type=programs.whole_number(1), default=1, help="processes, each with the models (%(default)s)")
    add("--api-key", help="what clients have to send (or the environment's DYNOGRAD_API_KEY)")
    add("--max-body", type=programs.whole_number(1), help="the most bytes of a request")
    add("--max-seconds", type=programs.number(above=0), help="the deadline of requests that bring none")
    add("--max-length", type=programs.whole_number(1), help="the most tokens of a row of a program (its first dim)")
    add("--max-rows", type=programs.whole_number(1), help="the most rows in a batch of a program (64)")
    add("--max-tokens", type=programs.whole_number(1), help="the most tokens in a batch of a program (8192)")
    add("--max-wait", type=programs.number(above=0), help="seconds that a row may wait for others (0.002)")
    add("--queue", type=programs.whole_number(1), help="how many requests of a program may wait (1024)")
    add("--batch-invariant", action="store_true", help="programs give each request the bits that it would have alone")
    add("--kernels", help="a folder with packs of compiled kernels, which are run")
    add(
        "--grace",
        type=programs.whole_number(1),
        help="seconds for requests under way when it is told to end (no limit)",
    )
    add("--access-log", action="store_true", help="a line on stdout for each request")
    add("--log-level", choices=("error", "warning", "info", "debug"), default="info", help="(%(default)s)")
    return parser


def _serve(options: argparse.Namespace) -> int:
    try:
        import uvicorn
    except ModuleNotFoundError:
        raise programs.UsageError("serve: uvicorn is not installed: pip install 'dynograd[serve]'.") from None
    server: dict[str, Any] = {
        "host": options.host,
        "port": options.port,
        "log_level": options.log_level,
        "access_log": options.access_log,
        "proxy_headers": options.access_log,  # whom a proxy speaks for is told by the log alone
        "server_header": False,
        "timeout_graceful_shutdown": options.grace,
        "timeout_keep_alive": _KEPT_ALIVE,
        "http": "dynograd.tools.web.writing:JoiningProtocol",
    }
    if options.workers == 1:
        uvicorn.run(_application(vars(options)), **server)
        return 0
    for target in options.targets:  # before any worker starts
        _program_parts(target) if _is_program(target) else _parts(target)
    os.environ[_OPTIONS] = json.dumps(vars(options))
    with tempfile.TemporaryDirectory(prefix="dynograd-serve-") as figures:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = figures
        uvicorn.run(
            "dynograd.tools.serve:app_of_worker",
            factory=True,
            workers=options.workers,
            timeout_worker_healthcheck=_HANG,
            **server,
        )
        return 1 if _broken(figures).exists() else 0


def app_of_worker() -> Starlette:
    """The application of a worker process. One that cannot be made would not be made at the next start either: then all end."""
    try:
        return _application(json.loads(os.environ[_OPTIONS]))
    except Exception as error:
        traceback.print_exc()
        _broken(os.environ["PROMETHEUS_MULTIPROC_DIR"]).touch()
        raise SystemExit(_BROKEN) from error


def _broken(folder: str) -> Path:
    """What stands there when a worker could not make its application."""
    return Path(folder) / "broken"


def _application(options: dict[str, Any]) -> Starlette:
    kernels = options["kernels"]
    if kernels is not None:
        if not Path(kernels).is_dir():
            raise programs.UsageError(f"serve: there is no folder {kernels!r}.")
        packs.add_folder(kernels)
    limits = {name: options[name] for name in _LIMITS if options[name] is not None}
    service = service_of(*options["targets"], batch_invariant=options["batch_invariant"], **limits)
    service.api_key = options["api_key"] or os.environ.get("DYNOGRAD_API_KEY") or service.api_key
    service.max_body = options["max_body"] or service.max_body
    service.max_seconds = options["max_seconds"] or service.max_seconds
    return service.app()


if __name__ == "__main__":
    sys.exit(main())
