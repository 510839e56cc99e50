"""Readers of data sets: right files give the right samples, wrong ones an error with file, line, expected and got."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import random
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy
import pytest

import dynograd as dg
from dynograd.data import DataLoader, datasets
from dynograd.data.datasets import reading, sources
from dynograd.errors import DataFileError, DownloadError

EXAMPLES = Path(__file__).parents[2] / "examples" / "data"


def text(content):
    return io.StringIO(content)


# --- tables -------------------------------------------------------------------------------------------------------------------------


def test_tables_with_tabs_keep_quotes_and_spaces():
    table = datasets.Table(text('a "b\tc \t\n\n1\t2\t3\n'))
    assert table[0] == ('a "b', "c ", "") and table[1] == ("1", "2", "3") and len(table) == 2


def test_tables_with_commas_and_a_header(tmp_path):
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(b'\xef\xbb\xbfmonth,text,value\r\n1949-01,"a, ""b""\nc",112\r\n1949-02,,1e3\r\n'))
    table = datasets.Table(path, types=(str, str, float), header=True)
    assert table.names == ("month", "text", "value")
    assert table.rows == [("1949-01", 'a, "b"\nc', 112.0), ("1949-02", "", 1000.0)]
    assert table.column("value") == table.column(2) == [112.0, 1000.0]


def test_the_sentences_of_the_example():
    table = datasets.Table(EXAMPLES / "rt-polarity.tsv.gz", types=(int, str.split))
    assert len(table) == 10_662 and sum(table.column(0)) == 5_331
    assert max(len(words) for words in table.column(1)) == 59


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        ("1\tx\n2\n", {}, r"the given file, line 2: expected 2 fields, got 1: \['2'\]"),
        ("1\tx\ty\n", {"types": (int, str)}, r"line 1: expected 2 fields, got 3"),
        ("1\tx\none\ty\n", {"types": (int, str)}, r"line 2: expected int in column 0, got 'one' \(invalid literal"),
        (
            "n,t\n1,x\n?,y\n",
            {"types": (int, str), "header": True, "delimiter": ","},
            r"line 3: expected int in column 'n', got '\?'",
        ),
        ('1,"x\n', {"delimiter": ","}, r"line 1: expected separated values, got unexpected end of data"),
        ('1,"x"y\n', {"delimiter": ","}, r"line 1: expected separated values, got .*delimiter"),
    ],
)
def test_tables_that_are_wrong(content, options, words):
    with pytest.raises(DataFileError, match=words):
        datasets.Table(text(content), **options)


def test_arguments_of_tables():
    with pytest.raises(ValueError, match="expected header=True or names, got both"):
        datasets.Table(text(""), header=True, names=["a"])
    with pytest.raises(ValueError, match="expected one character as delimiter, got '::'"):
        datasets.Table(text(""), delimiter="::")
    with pytest.raises(ValueError, match="expected as many types as names, got 1 and 2"):
        datasets.Table(text(""), types=(int,), names=("a", "b"))
    with pytest.raises(KeyError, match="expected one of .'a'., got 'b'"):
        datasets.Table(text("1\n"), names=("a",)).column("b")


# --- characters ---------------------------------------------------------------------------------------------------------------------


def test_character_text():
    assert datasets.CharacterText(io.BytesIO(b"\xef\xbb\xbfa\r\nb"), length=2).text == "a\nb"
    data = datasets.CharacterText(text("hello world\n"), length=4, stride=3)
    assert len(data) == 3 and data.characters == "\n dehlorw"
    assert [(data.decode(x), data.decode(y)) for x, y in data] == [("hell", "ello"), ("lo w", "o wo"), ("worl", "orld")]
    assert data.decode(data[-1][0]) == "worl"
    x = next(iter(DataLoader(data, batch_size=3)))[0]
    assert tuple(x.shape) == (3, 4) and x.dtype is dg.int64
    assert datasets.CharacterText(EXAMPLES / "tinyshakespeare.txt.gz", 100).codes.shape == (1_115_394,)


def test_character_text_that_does_not_fit():
    with pytest.raises(DataFileError, match=r"the given file: expected more than 5 characters for one sample, got 4"):
        datasets.CharacterText(text("abc\n"), length=5)
    with pytest.raises(DataFileError, match=r"expected characters out of 2, got 'c' at position 2"):
        datasets.CharacterText(text("abc\n"), length=2, characters="ab")
    with pytest.raises(ValueError, match="expected length and stride >= 1, got 0"):
        datasets.CharacterText(text("abc"), length=0)
    with pytest.raises(IndexError, match="from -1 to 0, got 1"):
        datasets.CharacterText(text("abcd"), length=3)[1]


# --- CoNLL --------------------------------------------------------------------------------------------------------------------------


def test_conll():
    content = "-DOCSTART- O\n\nAda B\n# O\n\n\n \nBob B\n"
    data = datasets.CoNLL(text(content))
    assert data.sentences == [{"token": ["Ada", "#"], "tag": ["B", "O"]}, {"token": ["Bob"], "tag": ["B"]}]
    assert len(datasets.CoNLL(text("# a comment\nAda B\n"), comments="#")) == 1
    assert datasets.CoNLL(text("a x 1\nb y 2\n"), columns=("token", None, "n"))[0] == {
        "token": ["a", "b"],
        "n": ["1", "2"],
    }
    assert datasets.CoNLL(text("New York\tB\n"), separator="\t")[0]["token"] == ["New York"]
    with pytest.raises(
        DataFileError, match=r"line 2: expected 2 columns \('token', 'tag'\), got 3: 'b B x'\. Name the columns"
    ):
        datasets.CoNLL(text("a B\nb B x\n"))
    with pytest.raises(ValueError, match="name of at least one column"):
        datasets.CoNLL(text(""), columns=())


UD = "# sent_id = 1\n1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_\n1\tdo\tdo\tAUX\t_\t_\t2\taux\t_\t_\n2\tn't\tnot\tPART\t_\t_\t0\troot\t_\t_\n2.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n"


def test_conllu():
    data = datasets.CoNLLU(text(UD + "\n" + UD.split("\n", 1)[1]))
    assert len(data) == 2 and data.comments == [["# sent_id = 1"], []]
    assert data[1]["form"] == ["do", "n't"] and data[0]["head"] == [2, 0] and data.labels("upos") == ["AUX", "PART"]
    assert [row[0] for row in data.others[0]] == ["1-2", "2.1"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("\t_\t_\n2\t", "\t_\n2\t"), r"line 3: expected 10 columns with tabs between them, got 9"),
        (("\n2\tn't", "\n3\tn't"), r"line 4: expected the word 2, got the word 3"),
        (("\n1\tdo", "\none\tdo"), r"line 3: expected a number such as 3, 3-4 or 3\.1 in the first column, got 'one'"),
        (("\t2\taux", "\t-2\taux"), r"line 3: expected a number or _ as head, got '-2'"),
        (("\t2\taux", "\t7\taux"), r"line 3: expected a head from 0 to 2, got 7"),
    ],
)
def test_conllu_that_is_wrong(change, words):
    assert change[0] in UD
    with pytest.raises(DataFileError, match=words):
        datasets.CoNLLU(text(UD.replace(*change)))


# --- trees --------------------------------------------------------------------------------------------------------------------------


def test_trees():
    content = "(3 (2 It) (4 (2 's)\n  (3 good\u00a0fun)))\n( (S (NP x)) )\n(1 y)\n"
    trees = datasets.Trees(text(content))
    assert [str(tree) for tree in trees] == ["(3 (2 It) (4 (2 's) (3 good\u00a0fun)))", "(S (NP x))", "(1 y)"]
    first = trees[0]
    assert first.labels == ["2", "2", "3", "4", "3"] and first.children == [(), (), (), (1, 2), (0, 3)]
    assert first.leaves() == ["It", "'s", "good\u00a0fun"] and first.depth() == 2 and len(first) == 5
    assert datasets.Tree.parse(str(first)) == first != datasets.Tree.parse("(1 y)", int)
    assert first != 1


def test_a_deep_tree():
    depth = 5000
    content = "(0 " * depth + "(1 w)" + ")" * depth
    tree = datasets.Trees(text(content), label=int)[0]
    assert tree.depth() == depth and str(tree) == content
    with pytest.raises(
        DataFileError,
        match=r"line 1: expected at most 100 open brackets, got another in column 301\. Pass a larger deepest",
    ):
        datasets.Trees(text(content), deepest=100)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            "(1 a)\n(2 (1 b)\n",
            r"line 2: expected 1 more '\)' for the tree that begins in line 2, got the end of the file",
        ),
        ("(1 a))\n", r"line 1: expected '\(', got '\)' in column 6"),
        ("word\n", r"line 1: expected '\(', got 'word' in column 1"),
        ("(1 a b)\n", r"line 1: expected '\(' or '\)', got 'b' in column 6"),
        ("(1 a (2 b))\n", r"line 1: expected '\)' behind the word 'a', got '\(' in column 6"),
        ("(1 (2 a) b)\n", r"line 1: expected '\(' or '\)', got 'b' in column 10"),
        ("(1)\n", r"expected a word or trees behind the label '1', got '\)'"),
        ("()\n", r"expected a label behind '\(', got none"),
        ("(1 ((2 a)))\n", r"expected a label behind '\(', got none"),
        ("(x a)\n", r"line 1: expected a label for int, got 'x'"),
    ],
)
def test_trees_that_are_wrong(content, words):
    with pytest.raises(DataFileError, match=words):
        datasets.Trees(text(content), label=int if "x" in content else str)


def test_one_tree_is_asked_for():
    with pytest.raises(DataFileError, match="expected one tree, got 2 trees"):
        datasets.Tree.parse("(1 a) (2 b)")


# --- idx ----------------------------------------------------------------------------------------------------------------------------


def idx(array, kind, header=None):
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return (header or bytes([0, 0, kind, array.ndim])) + sizes + array.astype(array.dtype.newbyteorder(">")).tobytes()


@pytest.mark.parametrize(("kind", "dtype"), [(8, "u1"), (9, "i1"), (11, "i2"), (12, "i4"), (13, "f4"), (14, "f8")])
def test_idx_of_every_type(kind, dtype):
    array = numpy.arange(6).reshape(3, 2).astype(dtype)
    result = datasets.read_idx(io.BytesIO(idx(array, kind)))
    assert result.tolist() == array.tolist() and result.numpy().dtype == dtype
    assert datasets.read_idx(io.BytesIO(idx(array.reshape((3, 2) + (1,) * 14), kind))).ndim == 16


ONES = numpy.ones((2, 3), numpy.uint8)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", r"the given file: expected an idx file .* got the bytes b''"),
        (b"PNG\x00", "expected an idx file"),
        (bytes([0, 0, 10, 1]), "expected an idx file"),
        (bytes([0, 0, 8, 200]), "expected an idx file"),
        (idx(ONES.reshape((2, 3) + (1,) * 15), 8), "1 to 16 dimensions"),
        (bytes([0, 0, 8, 3, 0, 0]), r"expected 3 sizes of 4 bytes, got a file of 6 bytes"),
        (idx(ONES, 8)[:-1], r"expected 6 bytes of values for the sizes \(2, 3\) of .*uint8, got 5"),
        (idx(ONES, 8) + b"x", r"expected 6 bytes .* got 7"),
        (bytes([0, 0, 14, 4]) + b"\xff" * 16, r"expected 27\d{38} bytes of values"),
    ],
)
def test_idx_files_that_are_wrong(raw, words):
    with pytest.raises(DataFileError, match=words):
        datasets.read_idx(io.BytesIO(raw))


def test_mnist_of_a_folder():
    data = datasets.MNIST(EXAMPLES, train=False)
    image, label = data[3]
    assert len(data) == 10_000 and tuple(image.shape) == (1, 28, 28) and label == 0
    assert image.dtype is dg.float32 and 0.99 < image.max().item() <= 1
    assert numpy.bincount(data.targets.numpy()).tolist()[:3] == [980, 1135, 1032] and data.data is data.images
    other = datasets.MNIST(EXAMPLES, False, transform=lambda x: x.mean(), target_transform=str)
    assert other[3][1] == "0" and other[3][0].ndim == 0


def test_images_and_labels_that_do_not_belong_together():
    images = io.BytesIO(idx(numpy.zeros((2, 1, 1), numpy.uint8), 8))
    with pytest.raises(
        DataFileError, match=r"expected images \(N, H, W\) and labels \(N,\), got \(2, 1, 1\) and \(3,\)"
    ):
        datasets.IdxImages(images, io.BytesIO(idx(numpy.zeros(3, numpy.uint8), 8)))


# --- files that are damaged or hostile ------------------------------------------------------------------------------------------------


def test_bombs_are_stopped(tmp_path):
    bomb = tmp_path / "bomb.gz"
    bomb.write_bytes(gzip.compress(bytes(20_000_000)))
    assert bomb.stat().st_size < 40_000
    with pytest.raises(DataFileError, match=r"bomb\.gz: expected at most 1000000 bytes of content, got more.*at_most"):
        datasets.read_idx(bomb, at_most=1_000_000)
    with pytest.raises(DataFileError, match=r"line 1: expected at most \d+ bytes in a line, got more"):
        datasets.Table(bomb)
    bomb.write_bytes(gzip.compress(b"a\tb\n" * 1_000_000))
    for reader in (datasets.Table, datasets.CoNLL, datasets.CoNLLU, datasets.Trees):
        with pytest.raises(DataFileError):
            reader(bomb, at_most=100_000)
    with pytest.raises(DataFileError, match="expected at most 100000 bytes"):
        datasets.CharacterText(bomb, 5, at_most=100_000)
    bomb.write_bytes(gzip.compress(gzip.compress(b"a\tb\n" * 1_000_000)))  # one is taken off
    with pytest.raises(DataFileError, match="expected UTF-8, got the byte 0x8b"):
        datasets.Table(bomb)
    bomb.write_bytes(gzip.compress(b"a\tb\n") * 1000)  # one behind the other
    with pytest.raises(DataFileError, match="expected at most 1000 bytes"):
        datasets.Table(bomb, at_most=1000)
    assert len(datasets.Table(bomb)) == 1000


def test_damaged_gzip(tmp_path):
    raw = gzip.compress(b"a\tb\n" * 1000)
    for name, changed in {"cut": raw[:-9], "flipped": raw[:15] + bytes([raw[15] ^ 255]) + raw[16:]}.items():
        (tmp_path / name).write_bytes(changed)
        with pytest.raises(
            DataFileError, match=rf"{name}, line \d+: expected more of a gzip file, got damage.*Fetch it again"
        ):
            datasets.Table(tmp_path / name)
        with pytest.raises(DataFileError, match=rf"{name}: expected a whole gzip file"):
            datasets.read_idx(tmp_path / name)


def test_text_that_is_not_utf8(tmp_path):
    (tmp_path / "x").write_bytes(b"a\tb\nc\t\xff\n")
    with pytest.raises(DataFileError, match=r"x, line 2: expected UTF-8, got the byte 0xff at position 2\. Convert"):
        datasets.Table(tmp_path / "x")
    with pytest.raises(DataFileError, match=r"x, line 2: expected UTF-8, got the byte 0xff at position 6"):
        datasets.CharacterText(tmp_path / "x", 2)


def test_damaged_files_only_give_data_file_errors(tmp_path):
    """Mutants of small right files: read, or refused by DataFileError."""
    chance = random.Random(0)
    files = {
        datasets.Table: b'1,"a b",2\n3,c,4\n',
        datasets.CoNLL: b"a B\nb O\n\nc O\n",
        datasets.CoNLLU: UD.encode(),
        datasets.Trees: b"(3 (2 a) (4 b))\n(1 c)\n",
        datasets.read_idx: idx(numpy.ones((3, 2), numpy.int16), 11),
    }
    refused = 0
    for reader, raw in files.items():
        for number in range(150):
            changed = bytearray(raw)
            for _ in range(chance.choice([1, 2, 5])):
                place = chance.randrange(len(changed))
                changed[place : place + chance.choice([0, 1, 3])] = chance.choice(
                    [b"", b"\n", b"(", b")", b'"', b"\0", b"\t", bytes([chance.randrange(256)])]
                )
            path = tmp_path / f"{number}.csv"
            path.write_bytes(
                changed if number % 2 else gzip.compress(bytes(changed))[: chance.choice([None, None, -5])]
            )
            try:
                reader(path)
            except DataFileError:
                refused += 1
    assert 100 < refused < 750


# --- fetching ------------------------------------------------------------------------------------------------------------------------


class Answers(BaseHTTPRequestHandler):
    content = b"labels " * 100
    asked = 0

    def do_GET(self):
        Answers.asked += 1
        if self.path == "/missing":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(self.content[: 300 if self.path == "/cut" else None])

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def server():
    """The address of a server on this machine."""
    served = HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=served.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{served.server_port}"
    served.shutdown()
    thread.join()
    served.server_close()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")


SHA = hashlib.sha256(Answers.content).hexdigest()


def test_download_and_cache(server, tmp_path):
    path = tmp_path / "new" / "x"
    before = Answers.asked
    for _ in range(2):
        assert datasets.download(server + "/x", SHA.upper(), path) == str(path)
    assert path.read_bytes() == Answers.content and Answers.asked == before + 1
    path.write_text("other")
    with pytest.raises(DownloadError, match=r"x' has SHA-256 \w+, expected \w+\. Remove it to fetch it again"):
        datasets.download(server + "/x", SHA, path)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        (
            "/x",
            {"sha256": "0" * 64},
            r"what came from .*/x \(700 bytes\) has SHA-256 \w+, expected 0+\. You can fetch .* by hand and put it at",
        ),
        ("/x", {"at_most": 10}, r"expected at most 10 bytes from .*/x, got more"),
        ("/missing", {}, r"answered 404 Not Found\. You can fetch"),
        ("/cut", {}, r"could not reach|has SHA-256|IncompleteRead"),
    ],
)
def test_downloads_that_fail_leave_nothing(server, tmp_path, name, options, words):
    with pytest.raises(DownloadError, match=words):
        datasets.download(server + name, **{"sha256": SHA, "path": tmp_path / "x"} | options)
    assert os.listdir(tmp_path) == []


def test_offline(tmp_path):
    with pytest.raises(
        DownloadError,
        match=r"could not reach http://127\.0\.0\.1:9/x \(.*\)\. Is this machine offline.*You can fetch .* by hand",
    ):
        datasets.download("http://127.0.0.1:9/x", SHA, tmp_path / "x", timeout=5)
    with pytest.raises(DownloadError, match="expected an address of http or https, got 'file:///etc/passwd'"):
        datasets.download("file:///etc/passwd", SHA, tmp_path / "x")
    assert os.listdir(tmp_path) == []


def test_a_disk_that_is_full(server, tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.write", full)
    with pytest.raises(DownloadError, match=r"No space left on device; nothing was written"):
        datasets.download(server + "/x", SHA, tmp_path / "x")


def test_files_are_looked_for_before_they_are_fetched(server, tmp_path, monkeypatch):
    monkeypatch.setenv("DYNOGRAD_DATA", str(tmp_path / "cache"))
    with pytest.raises(
        FileNotFoundError,
        match=r"train-images-idx3-ubyte\.gz or train-images-idx3-ubyte was looked for in .*cache.*root=.*download=True",
    ):
        datasets.MNIST()
    source = sources.Source(server + "/x", SHA, 700)
    monkeypatch.setitem(sources.SOURCES, "mnist/x.gz", source)
    result = sources.find("mnist/x.gz", may_download=True)
    assert result == str(tmp_path / "cache" / "mnist" / "x.gz") == sources.find("mnist/x.gz")
    (tmp_path / "MNIST" / "raw").mkdir(parents=True)
    (tmp_path / "MNIST" / "raw" / "x").write_bytes(b"mine")
    assert sources.find("mnist/x.gz", tmp_path, within=("", "MNIST/raw")) == str(tmp_path / "MNIST" / "raw" / "x")


def test_the_folder_for_what_was_fetched(monkeypatch, tmp_path):
    from dynograd.data.datasets import sources

    monkeypatch.delenv("DYNOGRAD_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert sources.cache_folder() == str(tmp_path / ".cache" / "dynograd" / "data")


@pytest.mark.parametrize("length, shown", [(80, "y" * 80), (81, "y" * 77 + "...")])
def test_long_lines_are_not_shown_whole(length, shown):
    assert f"got {shown}. Correct" in str(reading.bad_line("a.csv", 3, "numbers", "y" * length))
