"""`python -m dynograd cache`: what is in it, deleting it, and folders that cannot be used."""

import pytest

from dynograd.base import cache_files
from dynograd.kernels.build import kernel_cache
from dynograd.tools import cache


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DYNOGRAD_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache_files, "_folders", {})
    kernel_cache.write("a" * 40, b"x" * 2000)
    kernel_cache.write("b" * 40, b"x")
    generation = tmp_path / "functions" / "cpython-311-0" / "op"
    generation.mkdir(parents=True, mode=0o700)
    (tmp_path / "functions").chmod(0o700)
    (generation / "add.py").write_text("12345")
    return tmp_path


def test_info(folder, capsys):
    assert cache.main(["info"]) == 0
    rows = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines())
    assert rows == {"folder": str(folder), "kernels": "2, 2.1 KiB", "functions": "1, 5 bytes"}


def test_clear(folder, capsys):
    assert cache.main(["clear"]) == 0
    assert capsys.readouterr().out == f"2 kernels deleted from {folder}\n"
    assert not [path for path in folder.rglob("*") if path.is_file()]
    assert cache.main(["clear"]) == 0


def test_turned_off(monkeypatch, capsys):
    monkeypatch.setenv("DYNOGRAD_CACHE", "0")
    monkeypatch.setattr(cache_files, "_folders", {})
    assert cache.main(["info"]) == 0
    assert capsys.readouterr().out == "folder     none: DYNOGRAD_CACHE turns it off\n"
    assert cache.main(["clear"]) == 2
    assert capsys.readouterr().err == "cache: error: DYNOGRAD_CACHE turns it off\n"


def test_a_folder_that_is_not_fit(folder, capsys, monkeypatch):
    (folder / "kernels").chmod(0o777)
    monkeypatch.setattr(cache_files, "_folders", {})
    for _ in range(2):
        assert cache.main(["info"]) == 0
        assert "can be written by others (mode 777; chmod 700 mends it)" in capsys.readouterr().out
    assert cache.main(["clear"]) == 2
    assert "can be written by others" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (2**20, "1.0 MiB"), (3 * 2**30, "3072.0 MiB")],
)
def test_sizes(size, text):
    assert cache.readable_size(size) == text


def test_mistakes(capsys):
    for arguments in ([], ["empty"], ["clear", "x"]):
        with pytest.raises(SystemExit) as ended:
            cache.main(arguments)
        assert ended.value.code == 2
