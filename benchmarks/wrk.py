"""wrk (the program of that name), which sends requests with a tenth of the processor time that a client in Python takes."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from dynograd.utils import programs

__all__ = ["Sent", "send"]

_SCRIPT = """
local requests, next = {}, 0
function init(arguments)
  for body in io.lines(%s) do
    requests[#requests + 1] = wrk.format("POST", %s, {["Content-Type"] = "application/json"}, body)
  end
end
function request()
  next = next %% #requests + 1
  return requests[next]
end
"""


class Sent(NamedTuple):
    """What became of requests; it is not looked at what the answers say."""

    count: int
    rate: float  # a second
    lost: int  # answered with an error, or not at all
    busy: float  # seconds of wrk's processor time


def send(address: str, path: str, bodies: Sequence[bytes], clients: int, seconds: int) -> Sent:
    """Clients that ask again when they have their answers, for so many seconds; each body is a line.

    Raises:
        programs.UsageError: there is no wrk.
    """
    with tempfile.TemporaryDirectory() as folder:
        lines, script = Path(folder, "bodies"), Path(folder, "requests.lua")
        lines.write_bytes(b"\n".join(bodies))
        script.write_text(_SCRIPT % (json.dumps(str(lines)), json.dumps(path)))
        command = ["wrk", "-t1", f"-c{clients}", f"-d{seconds}s", "--timeout", "30s", "-s", str(script), address]
        busy = _seconds_of_children()
        try:
            text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        except FileNotFoundError:
            raise programs.UsageError("there is no program wrk; Debian's package has its name.") from None
        return sent(text, _seconds_of_children() - busy)


def sent(text: str, busy: float) -> Sent:
    """What wrk has printed."""
    count = re.search(r"(\d+) requests in", text)
    rate = re.search(r"Requests/sec:\s+(\S+)", text)
    assert count and rate, text
    errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    lost = sum(int(number) for match in (errors, refused) if match for number in match.groups())
    return Sent(int(count.group(1)), float(rate.group(1)), lost, busy)


def _seconds_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
