"""`stepping` where people are: at the prompt of a Jupyter kernel, and in an editor's debugger (debugpy, as VS Code speaks to it)."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = str(Path(__file__).parents[2])
SECONDS = 120
"""No wait is longer, so that a program that hangs ends the test."""
PROGRAM = textwrap.dedent("""\
    import sys
    sys.path.insert(0, {root!r})
    import dynograd as torch
    from dynograd import debug, nn
    net = nn.Linear(3, 2)


    def loss_of(x):
        h = net(x)  # linear
        h = h.relu()  # relu
        return h.square().sum()  # square sum


    {program}
    """)
STEPS = [("sum", "square sum"), ("square", "square sum"), ("relu", "relu"), ("linear", "linear")]


# --- Jupyter ------------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def kernel() -> Iterator[Any]:
    """A client of a kernel that runs in this interpreter's environment."""
    client_of = pytest.importorskip("jupyter_client", reason="the extra notebooks is not installed")
    pytest.importorskip("ipykernel", reason="the extra notebooks is not installed")
    manager, client = client_of.manager.start_new_kernel(startup_timeout=SECONDS, kernel_name="python3")
    try:
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def answered(client: Any, cell: str, answers: list[str]) -> tuple[str, str]:
    """What a cell prints whose requests for input get these answers, in turn; and its error, if it has one."""
    printed, left = [], list(answers)

    def output(message: Any) -> None:
        content = message["content"]
        if message["msg_type"] == "stream":
            printed.append(content["text"])

    reply = client.execute_interactive(
        cell, timeout=SECONDS, allow_stdin=True, output_hook=output, stdin_hook=lambda _: client.input(left.pop(0))
    )
    content = reply["content"]
    text = re.sub(r"\x1b\[[0-9;]*m", "", "".join(printed))
    return text, "" if content["status"] == "ok" else f"{content['ename']}: {content['evalue']}"


WAYS = {
    "stepping": "with debug.stepping():\n    loss_of(torch.ones(2, 3)).backward()",
    "backward": "with debug.provenance():\n    loss = loss_of(torch.ones(2, 3))\nloss.backward(step=True)",
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_notebook_stops_on_the_lines_of_its_cells(way):
    with kernel() as client:
        assert answered(client, PROGRAM.format(root=ROOT, program=""), [])[1] == ""
        commands = ["p 'op', op", "n", "p 'op', op", "n", "p 'op', op", "p g.shape", "n", "p 'op', op", "c"]
        printed, error = answered(client, WAYS[way], commands)
        assert error == "", printed
        stops = [line for line in printed.splitlines() if re.match("-+> ", line)]
        ops = [line for line in printed.splitlines() if line.startswith("('op', ")]
        assert ops == [f"('op', '{op}')" for op, _ in STEPS], printed
        assert [line.partition("  # ")[2] for line in stops] == [comment for _, comment in STEPS], printed
        assert "Size([2, 2])" in printed
        # The kernel goes on, and a pass that is quit is an error of its cell.
        printed, error = answered(client, WAYS[way], ["q"])
        assert error.startswith("BdbQuit: backward was quit at SumBackward0"), (printed, error)
        assert answered(client, "loss_of(torch.ones(2, 3)).backward()\nprint('done')", [])[0] == "done\n"


# --- an editor's debugger -----------------------------------------------------------------------------------------------------


class Editor:
    """The side of the debug adapter protocol that an editor is: requests, answers and events on a socket."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        self.file = self.socket.makefile("rb")
        self.number = 0
        self.events: list[dict[str, Any]] = []

    def close(self) -> None:
        self.file.close()
        self.socket.close()

    def send(self, command: str, **arguments: Any) -> int:
        self.number += 1
        text = json.dumps({"seq": self.number, "type": "request", "command": command, "arguments": arguments}).encode()
        self.socket.sendall(b"Content-Length: %d\r\n\r\n%b" % (len(text), text))
        return self.number

    def receive(self) -> dict[str, Any]:
        length = 0
        while line := self.file.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        message: dict[str, Any] = json.loads(self.file.read(length))
        return message

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """The body of the answer; events that come before are kept."""
        number = self.send(command, **arguments)
        while True:
            message = self.receive()
            if message["type"] == "response" and message["request_seq"] == number:
                assert message["success"], message
                body: dict[str, Any] = message.get("body") or {}
                return body
            self.events.append(message)

    def event(self, *names: str) -> dict[str, Any]:
        """The next event of one of these names."""
        while True:
            for place, message in enumerate(self.events):
                if message["type"] == "event" and message["event"] in names:
                    return self.events.pop(place)
            self.events.append(self.receive())


@contextlib.contextmanager
def debugged(program: Path) -> Iterator[Editor]:
    """The program under debugpy, which waits until an editor has connected; as `"request": "attach"` of a launch.json."""
    pytest.importorskip("debugpy", reason="the extra notebooks is not installed")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-Xfrozen_modules=off", "-m", "debugpy", "--listen", f"127.0.0.1:{port}"]
    process = subprocess.Popen([*command, "--wait-for-client", str(program)], stdout=subprocess.DEVNULL)
    try:
        with contextlib.closing(connected(port, process)) as editor:
            yield editor
    finally:
        process.kill()
        process.wait()


def connected(port: int, process: subprocess.Popen[bytes]) -> Editor:
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return Editor(port)
        except ConnectionRefusedError:
            assert process.poll() is None and time.monotonic() < deadline, "debugpy does not listen"


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_an_editor_stops_on_the_lines_of_the_program(way, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(root=ROOT, program=WAYS[way] + "\nprint('done')"))
    lines = program.read_text().splitlines()
    with debugged(program) as editor:
        editor.ask("initialize", adapterID="python", clientID="test", pathFormat="path")
        attached = editor.send("attach", justMyCode=True)
        editor.event("initialized")
        editor.ask("setBreakpoints", source={"path": str(program)}, breakpoints=[])
        editor.ask("configurationDone")
        seen = []
        while (event := editor.event("stopped", "terminated"))["event"] == "stopped":
            thread = event["body"]["threadId"]
            frame = editor.ask("stackTrace", threadId=thread)["stackFrames"][0]
            answer = editor.ask("evaluate", expression="(op, tuple(g.shape))", frameId=frame["id"], context="watch")
            comment = lines[frame["line"] - 1].partition("  # ")[2]
            seen.append((Path(frame["source"]["path"]).name, comment, answer["result"]))
            editor.ask("continue", threadId=thread)
        assert attached
        shapes = {"sum": "()"}
        assert seen == [("program.py", comment, f"('{op}', {shapes.get(op, '(2, 2)')})") for op, comment in STEPS]
