"""The list of what may fail in the public suite: each group says why, and the list may only shrink."""

import re
from argparse import Namespace
from pathlib import Path

from tools import run_array_api_suite as tool

MOST = 32  # lower it when a line goes


def test_each_group_has_a_reason_and_the_list_only_shrinks():
    groups = tool.EXPECTED.read_text().strip().split("\n\n")
    listed = []
    for group in groups[1:]:
        lines = group.splitlines()
        reasons = [line for line in lines if line.startswith("# ")]
        assert reasons == lines[: len(reasons)] and reasons, group
        listed += lines[len(reasons) :]
    assert all(re.fullmatch(r"array_api_tests/test_\w+\.py::test_\w+(\[.+\])?", line) for line in listed)
    assert len(set(listed)) == len(listed) <= MOST


def test_the_suite_is_run_on_our_namespace_with_the_list_and_on_others_without():
    options = Namespace(folder=Path("suite"), module=tool.OURS, examples=7, random=False, rest=["-x"])
    results = tool.command(options)
    assert {"--max-examples=7", "--derandomize", f"--xfails-file={tool.EXPECTED}"} < set(results) and results[
        -1
    ] == "-x"
    options.module, options.random = "numpy", True
    results = tool.command(options)
    assert "--derandomize" not in results and not any("xfails" in result for result in results)
    assert tool.environment("numpy")["ARRAY_API_TESTS_MODULE"] == "numpy"
