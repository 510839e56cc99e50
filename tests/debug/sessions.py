"""A debugger of backward whose commands come from a text, and the places where it stopped."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

from dynograd import debug


def session(program: Callable[[], Any], commands: str, **options: Any) -> str:
    """What the debugger answers to the commands."""
    with debug.stepping(stdin=io.StringIO(commands), stdout=(answers := io.StringIO()), **options):
        program()
    return answers.getvalue()


def stops(answers: str) -> list[tuple[str, int, str]]:
    """(node, line, its text) of each stop."""
    shown = re.findall(
        r"node \d+: (.+?)(?:Backward0?)?[;,].*\n(?:\(.*\n)?> .*\((\d+)\)\S+\(\)(?:->\S+)?\n-> (.*)", answers
    )
    assert len(shown) == answers.count("backward, node "), answers
    return [(node, int(line), text) for node, line, text in shown]


def names_an_op(text: str, node: str) -> bool:
    """Whether the comment of a line of source has the op of a node."""
    ops = text.partition("  # ")[2].lower().split()
    return any(op in node.lower() for op in ops)
