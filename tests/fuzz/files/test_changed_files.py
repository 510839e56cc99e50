"""Some hundred changed files of each format; `make fuzz-files` makes as many as one likes. And that what must not be is seen."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.fuzz.files.__main__ import main
from tests.fuzz.files.formats import FORMATS

ROOT = Path(__file__).parents[3]
SLOW = {"onnx"}  # its good files are ONNX's own tests, which take ten seconds to make
NEEDED = {"gguf": "gguf", "onnx": "onnx", "request": "starlette"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in FORMATS]
)
def test_changed_files_are_refused_or_read(tmp_path, capfd, name):
    if name in NEEDED:
        pytest.importorskip(NEEDED[name], reason=f"the extra with {NEEDED[name]} is not installed")
    assert main(["--count", "250", "--seed", "9", "--format", name, "--keep", str(tmp_path)]) == 0, capfd.readouterr()
    _, refused, read = [int(cell) for cell in capfd.readouterr().out.splitlines()[2].split("|")[2:5]]
    assert refused > 50 and refused + read == 250


def test_a_format_that_is_none(capsys):
    with pytest.raises(SystemExit):
        main(["--format", "pickle"])
    assert "--format: expected some of checkpoint, safetensors" in capsys.readouterr().err


def run(text):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(text)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_what_a_reader_must_not_do_is_noted(tmp_path):
    """Each of these lines is an event, and the last ones are none."""
    forbidden = [
        "exec('1')", "compile('1', 'a file', 'exec')", "__import__('this')", "open('/etc/passwd')", "open(inside, 'w')", "os.system('true')",
        "subprocess.run(['true'])", "socket.socket()", "pickle.loads(b'cos\\nsystem\\n.')", "marshal.loads(b'N')", "os.remove(inside)",
        "os.mkdir(inside + 's')", "ctypes.CDLL(None)", "os.symlink(inside, inside + 'l')", "open(inside + '/../../outside')",
    ]  # fmt: skip
    allowed = ["open(inside).read()", "ast.literal_eval('[1]')", "json.loads('1')"]
    text = f"""
        import ast, contextlib, ctypes, io, json, marshal, os, pickle, socket, subprocess
        from pathlib import Path
        from tests.fuzz.files.watching import Watch
        watch, inside = Watch(Path({str(tmp_path)!r})), {str(tmp_path / "file")!r}
        for line in {forbidden + allowed!r}:
            Path(inside).write_text("1")
            code = compile(line, Path(ast.__file__), "exec")  # as a line of the library
            with watch() as events, contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
                exec(code)
            print(bool(events))
    """
    assert run(text) == ["True"] * len(forbidden) + ["False"] * len(allowed)


def test_faults_are_seen(tmp_path):
    """Another error, an event, and other values than those of the checksums."""
    text = f"""
        import dataclasses, itertools
        from pathlib import Path
        from tests.fuzz.files import trying
        from tests.fuzz.files.formats import FORMATS
        form, count = FORMATS["kernel"], itertools.count()
        def error(path):
            next(count) and 1 / 0
        def event(path):
            next(count) and open("/etc/passwd").close()
        for read in (error, event, lambda path: next(count)):
            count = itertools.count()
            FORMATS["kernel"] = dataclasses.replace(form, read=read)
            print(trying.Tries("kernel", Path({str(tmp_path)!r})).try_one(0, 0)[0])
    """
    assert run(text) == ["fault"] * 3
