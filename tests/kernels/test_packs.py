"""Packs of compiled kernels: the format, each kind of damage, packs that are not for this process or not to be trusted."""

import hashlib
import json
import os
import sys
import warnings

import pytest

from dynograd.base import cache_files
from dynograd.kernels.build import packs

NAMES = ["0" * 40, "5a" * 20, "5b" * 20, "f" * 40]
ENTRIES = {name: name.encode() * 9 for name in NAMES}
FOR = {"level": "x86-64-v3", "numba": "0.1", "system": sys.platform}


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """A folder that stands for the one in the library, with a pack."""
    folder = tmp_path / "shipped"
    folder.mkdir(mode=0o755)
    monkeypatch.setattr(packs, "folder_of_the_library", lambda: folder)
    monkeypatch.setenv("DYNOGRAD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("DYNOGRAD_PACK", raising=False)
    monkeypatch.setattr(cache_files, "_folders", {})
    packs.reset()
    packs.write(folder / packs.file_name("x86-64-v3", "0.1"), FOR, ENTRIES)
    yield folder
    packs.reset()


def pack_in(folder):
    (path,) = folder.glob("*.pack")
    return path


def read(name=NAMES[0], level="x86-64-v3", version="0.1"):
    return packs.read(name, level, version)


def refused(reason, **how):
    """Nothing is read, and one warning says why."""
    with pytest.warns(UserWarning, match=reason) as warned:
        assert read(**how) is None
    assert len(warned) == 1 and "DYNOGRAD_PACK=0 silences this" in str(warned[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(NAMES[1]) is None


def test_entries_come_back(shipped):
    assert {name: read(name) for name in NAMES} == ENTRIES
    assert packs.Pack.open(pack_in(shipped)).names() == NAMES
    assert [read(name) for name in ("1" * 40, "5a" * 19 + "5b", "0" * 39 + "1")] == [None] * 3


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7])
def test_packs_of_few_entries(tmp_path, count):
    names = [f"{7 * index:040x}" for index in range(count)]
    packs.write(tmp_path / "few.pack", FOR, {name: name.encode() for name in reversed(names)})
    pack = packs.Pack.open(tmp_path / "few.pack")
    assert pack.names() == names and pack.made_for == FOR
    assert [pack.read(name) for name in names] == [name.encode() for name in names]
    assert pack.read("3" * 40) is None


def test_the_same_entries_give_the_same_bytes(shipped, tmp_path):
    packs.write(tmp_path / "again.pack", dict(reversed(FOR.items())), dict(reversed(ENTRIES.items())))
    assert (tmp_path / "again.pack").read_bytes() == pack_in(shipped).read_bytes()


PARTS = {"magic": 3, "digest of the head": 20, "length of the head": 48, "purpose": 60, "index": 200}


@pytest.mark.parametrize("place", PARTS.values(), ids=PARTS)
def test_a_changed_byte_of_the_head(shipped, place):
    data = bytearray(pack_in(shipped).read_bytes())
    data[place] ^= 1
    pack_in(shipped).write_bytes(data)
    refused(f"the pack of compiled kernels .*{pack_in(shipped).name} is (damaged|no pack)")


def test_a_changed_byte_of_an_entry(shipped):
    data = bytearray(pack_in(shipped).read_bytes())
    data[-1] ^= 1
    pack_in(shipped).write_bytes(data)
    assert read(NAMES[0]) == ENTRIES[NAMES[0]]
    refused("has a damaged entry \\(ffffffff\\)", name=NAMES[-1])


@pytest.mark.parametrize("length", [0, 10, 70, 200])
def test_a_cut_pack(shipped, length):
    pack_in(shipped).write_bytes(pack_in(shipped).read_bytes()[:length])
    refused("is (damaged|no pack)")


def test_a_pack_that_is_cut_later(shipped):
    assert read(NAMES[0]) == ENTRIES[NAMES[0]]
    pack_in(shipped).write_bytes(pack_in(shipped).read_bytes()[:300])
    refused("has a damaged entry", name=NAMES[-1])


def test_a_pack_that_goes_away_later(shipped):
    assert read(NAMES[0]) == ENTRIES[NAMES[0]]
    pack_in(shipped).unlink()
    refused("cannot be read \\(No such file", name=NAMES[-1])


def with_head(path, head):
    """The pack with another head, and the digest and length that fit it."""
    data = path.read_bytes()
    length = int.from_bytes(data[packs._START - 8 : packs._START], "little")
    start = packs._MAGIC + hashlib.sha256(head).digest() + len(head).to_bytes(8, "little")
    path.write_bytes(start + head + data[packs._START + length :])


HEADS = {
    "no JSON": b"{\n",
    "no text": b"\xff\n",
    "a list": b"[]\n",
    "a cut index": json.dumps(FOR).encode() + b"\n" + bytes(60),
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_a_forged_head(shipped, head):
    with_head(pack_in(shipped), head)
    refused("is damaged")


PLACES = {"behind the end": (1 << 40, 5), "beyond files": ((1 << 64) - 1, 5), "too long": (0, (1 << 32) - 1)}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_forged_index(shipped, place):
    entry = packs._ENTRY.pack(bytes.fromhex(NAMES[0]), *place, bytes(32))
    with_head(pack_in(shipped), json.dumps(FOR).encode() + b"\n" + entry)
    refused("has a damaged entry", name=NAMES[0])


def test_a_length_that_is_beyond_memory(shipped):
    data = bytearray(pack_in(shipped).read_bytes())
    data[packs._START - 8 : packs._START] = (1 << 62).to_bytes(8, "little")
    pack_in(shipped).write_bytes(data)
    refused("is damaged")


def test_entries_in_the_places_of_others(shipped):
    data = pack_in(shipped).read_bytes()
    start = packs.Pack.open(pack_in(shipped)).start
    pack_in(shipped).write_bytes(data[:start] + data[start:][::-1])
    refused("has a damaged entry", name=NAMES[0])


@pytest.mark.parametrize(
    "purpose, reason",
    [
        ({"level": "x86-64-v4"}, "was made for level x86-64-v4, and this is x86-64-v3"),
        ({"numba": "0.2"}, "was made for numba 0.2, and this is 0.1"),
        ({"system": "plan9"}, f"was made for system plan9, and this is {sys.platform}"),
    ],
)
def test_a_renamed_pack(shipped, purpose, reason):
    packs.write(pack_in(shipped), FOR | purpose, ENTRIES)
    refused(reason)


@pytest.mark.parametrize("other", [{"level": "x86-64-v4"}, {"version": "0.2"}])
def test_packs_for_others_only(shipped, other):
    with pytest.warns(UserWarning, match=f"{pack_in(shipped).name} is not for this process") as warned:
        assert read(**other) is None
    assert len(warned) == 1


def test_the_exact_processor_has_no_pack(shipped):
    assert read(level="native") is None


def test_a_library_without_packs_says_nothing(shipped):
    pack_in(shipped).unlink()
    assert read() is None


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")
class TestOwners:
    @pytest.mark.parametrize("mode", [0o666, 0o646, 0o664])
    def test_a_pack_that_others_can_write(self, shipped, mode):
        pack_in(shipped).chmod(mode)
        refused(f"can be written by others \\(mode {mode:o}; chmod go-w mends it\\)")

    def test_a_folder_that_others_can_write(self, shipped):
        shipped.chmod(0o777)
        refused("can be written by others \\(mode 777")

    def test_a_folder_above_that_others_can_write(self, shipped):
        shipped.parent.chmod(0o777)
        refused(f"lies in {shipped.parent}, which can be written by others \\(mode 777")

    def test_a_folder_like_tmp_above(self, shipped):
        shipped.parent.chmod(0o1777)  # where nobody renames what is another's
        assert read() == ENTRIES[NAMES[0]]

    @pytest.mark.parametrize(("mode", "reason"), [(0o755, None), (0o777, "can be written by others")])
    def test_a_link_is_followed_to_what_is_looked_at(self, shipped, tmp_path, mode, reason):
        (tmp_path / "elsewhere").mkdir(mode=0o755)
        path = pack_in(shipped)
        path.rename(tmp_path / "elsewhere" / "file")
        path.symlink_to(tmp_path / "elsewhere" / "file")
        (tmp_path / "elsewhere").chmod(mode)
        if reason is None:
            assert read() == ENTRIES[NAMES[0]]
        else:
            refused(reason)

    def test_a_pipe(self, shipped):
        path = pack_in(shipped)
        path.unlink()
        os.mkfifo(path)
        refused("is no ordinary file")

    def test_a_pack_of_somebody_else(self, shipped, monkeypatch):
        real = os.fstat

        def fstat(handle):
            status = list(real(handle))
            status[4] = 4321
            return os.stat_result(status)

        monkeypatch.setattr(os, "fstat", fstat)
        refused("belongs to user 4321, not to you \\(\\d+\\), root or the owner of dynograd")


@pytest.mark.parametrize("value", ["0", "off"])
def test_packs_can_be_turned_off(shipped, monkeypatch, value):
    monkeypatch.setenv("DYNOGRAD_PACK", value)
    assert read() is None


def test_without_the_cache_folder_the_librarys_pack_stays(shipped, monkeypatch):
    monkeypatch.setenv("DYNOGRAD_CACHE", "0")
    assert read() == ENTRIES[NAMES[0]]


def test_a_pack_in_the_users_cache(shipped):
    own = cache_files.folder("packs")
    pack_in(shipped).rename(own / packs.file_name("x86-64-v3", "0.1"))
    assert read() == ENTRIES[NAMES[0]]


def test_a_useless_entry_is_not_read_again(shipped):
    assert read() and packs.refuse(NAMES[0])
    assert read() is None and not packs.refuse(NAMES[0])
    assert not packs.refuse("1" * 40)


def test_a_full_disk_leaves_what_was_there(shipped, monkeypatch):
    before = pack_in(shipped).read_bytes()

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        packs.write(pack_in(shipped), FOR, {})
    assert pack_in(shipped).read_bytes() == before and len(list(shipped.iterdir())) == 1
