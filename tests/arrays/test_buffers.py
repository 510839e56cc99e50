"""Memory of large arrays: what is kept, for how long, and what happens when there is none."""

import copy
import gc
import mmap
import os
import pickle
import threading

import numpy as np
import pytest

import dynograd
from dynograd import arrays, memory
from dynograd.arrays import buffers
from dynograd.errors import OutOfMemoryError

MIB = 1 << 20


@pytest.fixture(autouse=True)
def fresh():
    before = buffers.limit()
    gc.collect()
    buffers.set_limit(1 << 30)
    buffers.release()
    yield
    buffers.set_limit(before)


def address(array):
    return array.__array_interface__["data"][0]


def counts(*names):
    found = buffers.statistics()
    return tuple(found[name] for name in names)


def test_memory_is_handed_on():
    one = buffers.empty((512, 1024), np.float32)
    place, (hits, misses) = address(one), counts("hits", "misses")
    del one
    other = buffers.empty((1024, 256), np.float64)
    assert address(other) == place
    assert counts("hits", "misses") == (hits + 1, misses)


def test_two_live_arrays_never_share():
    made = [buffers.empty((100_000 + 1000 * number,), np.float32) for number in range(20)]
    for number, array in enumerate(made):
        array.fill(number)
    assert all((array == number).all() for number, array in enumerate(made))


@pytest.mark.parametrize(
    "shape, kept", [((65_535,), False), ((65_536,), True), ((0,), False), ((), False), ((4, 1 << 20), True)]
)
def test_what_comes_from_kept_memory(shape, kept):
    made = buffers.empty(shape, np.float32)
    assert buffers.is_leased(made) is kept
    assert made.shape == shape and made.dtype == np.float32 and made.flags.carray
    assert arrays.owns_memory(made) and arrays.is_array(made)


def test_zeros_are_zeros_in_used_memory():
    buffers.empty((MIB,), np.float32).fill(7)
    assert not buffers.zeros((MIB,), np.float32).any()


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[1:],
        lambda x: x.reshape(2, -1),
        lambda x: x.T,
        lambda x: x.view(np.int32),
        lambda x: np.asarray(x).base,
        lambda x: memoryview(x),
        lambda x: np.frombuffer(x, np.uint8),
    ],
)
def test_a_view_keeps_its_memory(view):
    one = buffers.empty((MIB,), np.float32)
    one.fill(3)
    kept, place = view(one), address(one)
    del one
    other = buffers.empty((MIB,), np.float32)
    assert address(other) != place
    other.fill(5)
    assert (np.asarray(kept).view(np.float32) == 3).all()
    del kept
    assert address(buffers.empty((MIB,), np.float32)) == place


def test_a_numpy_array_outlives_its_tensor():
    x = dynograd.full((1000, 1000), 2.0)
    exported = x.numpy()
    interface = np.asarray(x)
    del x
    dynograd.full((1000, 1000), 9.0)
    assert (exported == 2).all() and (interface == 2).all()


def test_pickled_and_copied_arrays_are_their_own():
    one = buffers.empty((MIB,), np.float32)
    one.fill(3)
    copies = [pickle.loads(pickle.dumps(one)), copy.copy(one), copy.deepcopy(one)]
    x = dynograd.full((1000, 1000), 2.0)
    copies += [pickle.loads(pickle.dumps(x)).numpy() + 1, copy.deepcopy(x).numpy() + 1]
    one.fill(4)
    del one, x
    for made in copies:
        assert type(made) is np.ndarray and (made == 3).all()


def test_views_and_copies_of_the_owner_itself_give_nothing_back():
    one = buffers.empty((MIB,), np.float32)
    (unused,) = counts("unused")
    owner = one.base
    del one
    part, twin = owner[10:20], copy.deepcopy(owner)
    del part, twin
    assert counts("unused") == (unused,)
    del owner
    assert counts("unused") == (unused + 4 * MIB,)


def test_sizes_of_one_class_and_roomier_ones():
    one = buffers.empty((1000 * 1024,), np.uint8)
    place = address(one)
    del one
    near = buffers.empty((990 * 1024,), np.uint8)
    assert address(near) == place
    del near
    assert address(buffers.empty((700 * 1024,), np.uint8)) == place  # up to SPARE times as large
    one = buffers.empty((300 * 1024,), np.uint8)
    assert address(one) != place


@pytest.mark.parametrize("nbytes", [1 << 18, (1 << 18) + 1, 300_000, MIB - 1, 5 * MIB + 3, (1 << 31) + 7])
def test_size_classes_waste_at_most_an_eighth(nbytes):
    size = buffers._size_class(nbytes)
    assert nbytes <= size <= nbytes * 1.13 and size % 4096 == 0


def test_the_limit():
    buffers.set_limit(3 * MIB)
    made = [buffers.empty((MIB,), np.uint8) for _ in range(5)]
    places = [address(array) for array in made]
    while made:
        made.pop(0)
    assert counts("unused") == (3 * MIB,)
    assert address(buffers.empty((MIB,), np.uint8)) in places[2:]  # the oldest went
    buffers.set_limit(0)
    assert counts("unused", "limit") == (0, 0)
    buffers.empty((MIB,), np.uint8)
    assert counts("unused") == (0,)
    buffers.set_limit(MIB)
    buffers.empty((2 * MIB,), np.uint8)
    assert counts("unused") == (0,)
    with pytest.raises(ValueError, match="set_limit: expected 0 or more bytes, got -1"):
        memory.set_limit(-1)
    assert memory.limit() == MIB


def test_release_and_statistics():
    start, _ = counts("in_use", "unused")
    memory.reset_peak()
    made = buffers.empty((4 * MIB,), np.uint8)
    assert counts("in_use", "peak") == (start + 4 * MIB, start + 4 * MIB)
    del made
    assert counts("in_use", "unused", "peak") == (start, 4 * MIB, start + 4 * MIB)
    assert memory.release() == 4 * MIB
    assert counts("in_use", "unused") == (start, 0)
    memory.reset_peak()
    assert counts("peak") == (start,)


def test_many_different_sizes_keep_little_more_than_the_peak(monkeypatch):
    monkeypatch.setattr(buffers, "ROOM", MIB)
    start, _ = counts("in_use", "unused")
    for number in range(1, 200):
        buffers.empty((MIB + 150_000 * number % (40 * MIB),), np.uint8)
        in_use, unused = counts("in_use", "unused")
        assert in_use + unused <= 1.25 * (start + 45 * MIB) + MIB


def test_steps_that_repeat_find_all_their_memory():
    def step():
        made = [buffers.empty((MIB * size,), np.uint8) for size in (3, 1, 7, 2, 2, 5)]
        made.append(buffers.empty((4 * MIB,), np.uint8))

    step()
    (misses,) = counts("misses")
    for _ in range(5):
        step()
    assert counts("misses") == (misses,)


def test_no_memory_says_what_to_do(monkeypatch):
    def none(size):
        raise OSError(12, "Cannot allocate memory")

    held = buffers.empty((MIB,), np.uint8)
    (in_use,) = counts("in_use")
    monkeypatch.setattr(buffers, "_mapped", none)
    with pytest.raises(
        OutOfMemoryError, match=rf"no memory for a result of 2,097,152 bytes: {in_use:,} bytes .* Make batches smaller"
    ) as caught:
        buffers.empty((2 * MIB,), np.uint8)
    assert isinstance(caught.value, MemoryError)
    assert counts("in_use") == (in_use,)
    del held


def test_unused_memory_is_given_back_before_there_is_none(monkeypatch):
    del_me = buffers.empty((64 * MIB,), np.uint8)
    del del_me
    mapped, tries = buffers._mapped, []

    def scarce(size):
        tries.append(counts_unlocked())
        if len(tries) == 1:
            raise OSError(12, "Cannot allocate memory")
        return mapped(size)

    def counts_unlocked():
        return buffers._unused

    monkeypatch.setattr(buffers, "_mapped", scarce)
    buffers.empty((3 * MIB,), np.uint8)
    assert tries == [64 * MIB, 0]


def test_impossible_sizes():
    with pytest.raises(OutOfMemoryError, match="no memory for a result"):
        buffers.empty((1 << 61,), np.uint8)


def test_finalizers_in_the_middle_of_an_allocation_leave_it_alone(monkeypatch):
    """Python's collector may run in `_take`, and free or make large arrays there."""
    mapped = buffers._mapped
    dying = [buffers.empty((MIB,), np.uint8)]
    made = []

    def collecting(size):
        monkeypatch.setattr(buffers, "_mapped", mapped)
        dying.clear()
        made.append(buffers.empty((2 * MIB,), np.uint8))
        buffers.statistics()
        return mapped(size)

    start, unused = counts("in_use", "unused")
    monkeypatch.setattr(buffers, "_mapped", collecting)
    outer = buffers.empty((3 * MIB,), np.uint8)
    assert counts("in_use", "unused") == (start + 2 * MIB + 3 * MIB - MIB, unused + MIB)
    made.clear()
    del outer
    assert counts("in_use", "unused") == (start - MIB, unused + 6 * MIB)


def test_threads_share_the_memory():
    errors = []

    def work(number):
        random = np.random.default_rng(number)
        held = []
        for step in range(200):
            array = buffers.empty((int(random.integers(1 << 18, 1 << 20)),), np.uint8)
            array[::4096] = number
            held.append(array)
            if len(held) > 3:
                gone = held.pop(int(random.integers(4)))
                if (gone[::4096] != number).any():
                    errors.append((number, step))

    start, _ = counts("in_use", "unused")
    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    gc.collect()
    assert counts("in_use") == (start,)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_has_memory_of_its_own():
    one = buffers.empty((MIB,), np.uint8)
    one.fill(1)
    buffers.empty((2 * MIB,), np.uint8).fill(2)
    with buffers._lock:  # as if another thread were at work in the parent
        child = os.fork()
        if not child:
            code = 1
            try:
                other = buffers.empty((2 * MIB,), np.uint8)
                other.fill(9)
                one.fill(5)
                del other
                code = 0 if (one == 5).all() and buffers.release() >= 2 * MIB else 2
            finally:
                os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert (one == 1).all()


def test_versions_of_memory_that_was_used_before_start_at_zero():
    x = dynograd.zeros(1000, 1000)
    x.add_(1)
    assert x._version == 1
    place = x.data_ptr()
    del x
    y = dynograd.zeros(1000, 1000)
    assert y.data_ptr() == place and y._version == 0


def test_the_default_limit_is_a_part_of_the_memory():
    assert 1 << 26 <= buffers._default_limit() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4


def test_bytes_without_a_buffer_are_forgotten(monkeypatch):
    """An interrupt may come between a buffer that is taken and its count: what is given back then is all there is."""
    buffers.release()
    monkeypatch.setattr(buffers, "_unused", buffers._unused + 4096)
    buffers.release()
    assert buffers._unused == 0


def test_what_is_discarded_is_whole_pages_of_the_array_alone():
    whole = buffers.zeros((MIB,), np.dtype("uint8"))
    whole += 7
    page, part = mmap.PAGESIZE, whole[100 : 3 * mmap.PAGESIZE + 50]
    buffers.discard(part)
    gone = np.flatnonzero(whole == 0) if hasattr(mmap, "MADV_DONTNEED") else np.arange(page, 3 * page)
    assert gone[0] == page and gone[-1] == 3 * page - 1 and len(gone) == 2 * page
    part += 1
    assert (part[page:-page] >= 1).all() and whole[0] == 7 and whole[4 * page] == 7


def test_memory_that_is_no_buffers_is_not_discarded():
    for array in (np.ones(MIB), np.ones(4), np.frombuffer(mmap.mmap(-1, MIB), np.uint8)):
        before = array.copy()
        buffers.discard(array)
        assert (array == before).all()
