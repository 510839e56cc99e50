"""What lies at a path in a file's place, or comes there meanwhile: pipes, devices, links of others, names that were guessed, folders exchanged."""

from __future__ import annotations

import io
import itertools
import os
import stat

import pytest

import dynograd as dg
from dynograd.base import files
from dynograd.data import datasets
from dynograd.errors import CheckpointError, DataFileError, OnnxError, ProgramError

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")


def onnx(path):
    pytest.importorskip("onnx", reason="the extra onnx is not installed")
    return dg.onnx.load(path)


def mapped(path):
    return dg.load(path, mmap=True)


def folder(path):
    return dg.saving.load_folder(path.parent)


READERS = [
    (dg.load, "x", CheckpointError),
    (mapped, "x", CheckpointError),
    (dg.load, "x.index.json", CheckpointError),
    (dg.saving.load_gguf, "x", CheckpointError),
    (folder, "model.safetensors", CheckpointError),
    (folder, "config.json", CheckpointError),
    (dg.load_run, "x", CheckpointError),
    (dg.export.load_program, "x", ProgramError),
    (onnx, "x", OnnxError),
    (datasets.read_idx, "x", DataFileError),
    (datasets.Table, "x", DataFileError),
    (datasets.CharacterText, "x", DataFileError),
]
KINDS = {"a pipe": os.mkfifo, "a device": lambda path: path.symlink_to("/dev/zero")}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("read", "name", "error"), READERS, ids=[f"{row[0].__module__}.{row[0].__name__} {row[1]}" for row in READERS]
)
def test_a_reader_neither_waits_nor_reads_without_end(tmp_path, read, name, error, kind):
    if name == "config.json":
        dg.saving.save_folder({"a": dg.ones(1)}, tmp_path)
    KINDS[kind](tmp_path / name)
    options = {"length": 3} if read is datasets.CharacterText else {}
    with pytest.raises(error, match=rf"{name} is {kind}, expected a file\. Pass it opened"):
        read(tmp_path / name, **options)


def test_a_folder_is_no_file(tmp_path):
    for read in (dg.saving.load_gguf, datasets.read_idx):
        with pytest.raises(IsADirectoryError):
            read(tmp_path)


@pytest.mark.parametrize(
    ("mode", "owner", "refused"),
    [(0o1777, 4321, True), (0o777, 4321, True), (0o755, 4321, False), (0o1777, None, False)],
    ids=["like /tmp", "where all may write", "in a folder of one's own", "one's own link"],
)
def test_links_of_others(tmp_path, monkeypatch, mode, owner, refused):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(mode)
    (tmp_path / "mine").write_text("precious")
    (tmp_path / "open" / "second").symlink_to(tmp_path / "mine")
    (tmp_path / "first").symlink_to(tmp_path / "open" / "second")
    real = os.lstat

    def lstat(path, **options):
        status = list(real(path, **options))
        if owner and os.fspath(path).endswith("second"):
            status[4] = owner
        return os.stat_result(status)

    monkeypatch.setattr(os, "lstat", lstat)
    for name in ("open/second", "first"):
        if refused:
            with pytest.raises(
                CheckpointError, match=r"second' is a link to '.*mine' that user 4321 has left in a folder"
            ):
                dg.save(1, tmp_path / name)
            assert (tmp_path / "mine").read_text() == "precious"
        else:
            dg.save(1, tmp_path / name)
            assert dg.load(tmp_path / "mine") == 1 and (tmp_path / name).is_symlink()


def test_temporary_names_that_were_guessed(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_count", itertools.count())
    guesses = [tmp_path / files._temporary_name("x") for _ in range(3)]
    monkeypatch.setattr(files, "_count", itertools.count())
    (tmp_path / "victim").write_text("precious")
    guesses[0].symlink_to(tmp_path / "victim")
    os.mkfifo(guesses[1])
    guesses[2].mkdir()
    dg.save(1, tmp_path / "x")
    assert dg.load(tmp_path / "x") == 1 and not (tmp_path / "x").is_symlink()
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_temporary_file_that_is_there_first(tmp_path, monkeypatch):
    """Between the look and the opening: it is not written to."""
    monkeypatch.setattr(files, "_unused_name", lambda folder, name: os.path.join(folder, "guessed"))
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "guessed").symlink_to(tmp_path / "victim")
    with pytest.raises(CheckpointError, match="File exists; nothing was written"):
        dg.save(1, tmp_path / "x")
    assert (tmp_path / "victim").read_text() == "precious"


@pytest.mark.parametrize("into", ["a link to another folder", "another folder", "nothing"])
def test_a_folder_that_is_exchanged_while_it_is_written(tmp_path, into):
    (tmp_path / "saves").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x").write_text("precious")

    def write(output):
        output.write(b"new")
        (tmp_path / "saves").rename(tmp_path / "moved")
        if into == "a link to another folder":
            (tmp_path / "saves").symlink_to(tmp_path / "elsewhere")
        elif into == "another folder":
            (tmp_path / "elsewhere").rename(tmp_path / "saves")

    with pytest.raises(CheckpointError, match="No such file|there is no folder"):
        files.write_atomically(os.fspath(tmp_path / "saves" / "x"), write)
    (left,) = [path for path in tmp_path.glob("*/x") if path.parent.is_dir() and not path.parent.is_symlink()]
    assert left.read_text() == "precious"


def test_permissions_go_to_the_file_that_is_written(tmp_path, monkeypatch):
    """Not to what has its name by then."""
    dg.save(1, tmp_path / "x")
    os.chmod(tmp_path / "x", 0o640)
    (tmp_path / "victim").write_text("precious")
    os.chmod(tmp_path / "victim", 0o600)
    real = os.stat

    def exchanging(path, **options):
        for name in os.listdir(tmp_path):
            if name.endswith(".tmp"):
                os.unlink(tmp_path / name)
                os.symlink(tmp_path / "victim", tmp_path / name)
        return real(path, **options)

    monkeypatch.setattr(os, "stat", exchanging)
    dg.save(2, tmp_path / "x")
    monkeypatch.undo()
    assert stat.S_IMODE(os.stat(tmp_path / "victim").st_mode) == 0o600
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_pipe_at_the_target_is_written(tmp_path):
    os.mkfifo(tmp_path / "x")
    with os.fdopen(os.open(tmp_path / "x", os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        dg.save({"a": [1, 2]}, tmp_path / "x")
        assert dg.load(io.BytesIO(reader.read())) == {"a": [1, 2]}
    assert stat.S_ISFIFO(os.stat(tmp_path / "x").st_mode)
