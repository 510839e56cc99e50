"""A client of pyright's language server: what an editor asks about one program, and the answers as plain text.

The server speaks JSON-RPC over its standard input and output, every message behind a `Content-Length` header.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

CAPABILITIES = {
    "workspace": {"configuration": True, "workspaceFolders": True},
    "textDocument": {
        "completion": {"completionItem": {"documentationFormat": ["plaintext"], "labelDetailsSupport": True}},
        "hover": {"contentFormat": ["plaintext"]},
        "signatureHelp": {"signatureInformation": {"documentationFormat": ["plaintext"]}},
        "definition": {"linkSupport": False},
    },
}


class LanguageServer:
    """One server that has one program open. A place in the program is a piece of its text with `|` at the cursor."""

    def __init__(self, command: list[str], program: Path, settings: dict[str, Any]) -> None:
        self.program = program.resolve()
        self.text = self.program.read_text(encoding="utf-8")
        self.settings = settings
        self.diagnostics: list[dict[str, Any]] | None = None
        self._requests = 0
        self._process = subprocess.Popen(
            command, cwd=program.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        root = program.parent.as_uri()
        self.ask(
            "initialize",
            {
                "processId": None,
                "rootUri": root,
                "workspaceFolders": [{"uri": root, "name": program.stem}],
                "capabilities": CAPABILITIES,
            },
        )
        self._send({"method": "initialized", "params": {}})
        document = {"uri": program.as_uri(), "languageId": "python", "version": 1, "text": self.text}
        self._send({"method": "textDocument/didOpen", "params": {"textDocument": document}})

    def close(self) -> None:
        """Ends the server as an editor does, or by force where it does not answer."""
        try:
            self.ask("shutdown", None)
            self._send({"method": "exit"})
            self._process.wait(timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def ask(self, method: str, params: Any) -> Any:
        """The result of one request. What the server asks meanwhile is answered."""
        self._requests += 1
        number = self._requests
        self._send({"id": number, "method": method, "params": params})
        while True:
            message = self._receive()
            if "method" in message:
                self._answer(message)
            elif message.get("id") == number:
                assert "error" not in message, message["error"]
                return message.get("result")

    def completions(self, place: str) -> dict[str, dict[str, Any]]:
        """The names an editor lists at a place, with what it knows of each."""
        items = self._ask_at("completion", place)["items"]
        return {item["label"]: item for item in items}

    def hover(self, place: str) -> str:
        """What an editor shows when the mouse rests on a place; empty where it shows nothing."""
        answer = self._ask_at("hover", place)
        return "" if answer is None else str(answer["contents"]["value"])

    def signatures(self, place: str) -> list[str]:
        """The signatures an editor shows inside the parentheses of a call."""
        answer = self._ask_at("signatureHelp", place)
        return [] if answer is None else [str(signature["label"]) for signature in answer["signatures"]]

    def definitions(self, place: str) -> list[tuple[Path, str]]:
        """The file and the line an editor opens for a name."""
        lines = []
        for target in self._ask_at("definition", place) or []:
            path = Path(unquote(urlparse(target["uri"]).path)).resolve()
            line = target["range"]["start"]["line"]
            lines.append((path, path.read_text(encoding="utf-8").splitlines()[line].strip()))
        return lines

    def problems(self) -> list[str]:
        """What an editor underlines in the program."""
        while self.diagnostics is None:
            message = self._receive()
            if "method" in message:
                self._answer(message)
        return [f"line {row['range']['start']['line'] + 1}: {row['message']}" for row in self.diagnostics]

    def _ask_at(self, request: str, place: str) -> Any:
        before, _, after = place.partition("|")
        assert self.text.count(before + after) == 1, (
            f"{before + after!r} stands {self.text.count(before + after)} times"
        )
        above = self.text[: self.text.index(before + after) + len(before)].splitlines()
        position = {"line": len(above) - 1, "character": len(above[-1])}
        return self.ask(
            f"textDocument/{request}", {"textDocument": {"uri": self.program.as_uri()}, "position": position}
        )

    def _answer(self, message: dict[str, Any]) -> None:
        """Keeps what the server says of the program, and answers what it asks of an editor."""
        params = message.get("params") or {}
        if message["method"] == "textDocument/publishDiagnostics" and params["uri"] == self.program.as_uri():
            self.diagnostics = params["diagnostics"]
        if "id" in message:
            result = None
            if message["method"] == "workspace/configuration":
                result = [self._setting(item.get("section", "")) for item in params["items"]]
            self._send({"id": message["id"], "result": result})

    def _setting(self, section: str) -> Any:
        value: Any = self.settings
        for name in filter(None, section.split(".")):
            value = value.get(name, {}) if isinstance(value, dict) else {}
        return value

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._process.stdin.flush()

    def _receive(self) -> Any:
        assert self._process.stdout is not None
        length = 0
        while (line := self._process.stdout.readline()).strip():
            name, _, value = line.decode("ascii").partition(":")
            if name.lower() == "content-length":
                length = int(value)
        if not line:
            raise EOFError(f"the language server ended with {self._process.wait()}")
        return json.loads(self._process.stdout.read(length))
