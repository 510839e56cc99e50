"""An exception on its way from a worker to the program: plain data in between, for not every exception can be pickled."""

from __future__ import annotations

import pickle
import traceback

from dynograd.errors import LoaderError

__all__ = ["describe", "rebuild"]


def describe(error: BaseException) -> dict:
    """An exception as plain data: its traceback as text, its notes, and what `rebuild` needs to make it again."""
    notes = error.__dict__.pop("__notes__", [])
    text = "".join(traceback.format_exception(error))
    return {
        "name": f"{type(error).__module__}.{type(error).__qualname__}",
        "message": _text_of(error),
        "notes": notes,
        "traceback": text,
        "pickle": _pickle_of(error),
    }


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(its text could not be made)"


def _pickle_of(error: BaseException) -> bytes | None:
    """The exception as pickle proposes; else without its __init__; None if neither can be read back."""
    if not isinstance(error, Exception):  # SystemExit and the like would end the program
        return None
    for parts in (error, (type(error), error.args, _picklable(error.__dict__))):
        try:
            pickled = pickle.dumps(parts)
            if type(_unpickle_error(pickled)) is type(error):
                return pickled
        except Exception:
            continue
    return None


def _picklable(fields: dict) -> dict:
    kept = {}
    for name, value in fields.items():
        try:
            pickle.loads(pickle.dumps(value))
            kept[name] = value
        except Exception:
            continue
    return kept


def _unpickle_error(pickled: bytes) -> BaseException:
    error = pickle.loads(pickled)
    if isinstance(error, tuple):
        kind, args, fields = error
        error = kind.__new__(kind, *args)
        error.args = args
        error.__dict__.update(fields)
    return error


def rebuild(failure: dict, worker: str) -> BaseException:
    """The exception again, of its own type where that can be made, else a LoaderError; notes say where it came from."""
    error: BaseException | None = None
    if failure["pickle"] is not None:
        try:
            error = _unpickle_error(failure["pickle"])
        except Exception:
            error = None
    origin = f"{worker}, original traceback:\n{failure['traceback'].rstrip()}"
    if error is None:
        notes = "\n".join(failure["notes"])
        return LoaderError(f"{failure['name']}: {failure['message']}\n{notes}\n{origin}")
    for note in [*failure["notes"], origin]:
        error.add_note(note)
    return error
