"""Device memory: blocks that come back when they die, and go to the next who asks for as much on the same stream.

A freed block is put on the *shelf* of its size class and stream; `allocate` takes the newest block of that shelf. Work on one
stream is done in order, so neither waits for the device. Only a miss asks the driver: small blocks are cut from slabs, large ones
are taken from the driver's pool, and when much more lies idle than a quarter of what is in use, idle blocks go back to that pool,
which uses their memory for other sizes.

A block that other streams use too (`record_stream`) comes back when events on these streams have passed. While a CUDA graph is
captured, memory comes from the graph's own `PrivateMemory`, so that replays find it where it was.

`Block.__del__` may run at any moment and in any thread, in the middle of the functions below too: it takes no lock and calls no
driver, it appends to a list.
"""

from __future__ import annotations

import bisect
import gc
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from dynograd.cuda import driver, streams
from dynograd.cuda.thread_state import current
from dynograd.errors import DeviceError, OutOfMemoryError

__all__ = ["Block", "PrivateMemory", "allocate", "empty_cache", "memory_of", "record_stream", "set_limit"]

ROUNDING = 512  # Triton's "divisible by 16" holds for every block, and 128-byte lines are never shared
SMALL = 1 << 16
SLAB = 1 << 21  # the size of the device's pages
LARGE = 1 << 20
FINE = 1 << 26
IDLE = 1 << 26
_MOST_SIZES = 4096


def size_class(nbytes: int) -> int:
    """What a request is rounded up to: multiples of 512 to 4 KiB, then 8 sizes to a doubling, and 32 beyond 64 MiB."""
    step = max(ROUNDING, 1 << max((nbytes - 1).bit_length() - (6 if nbytes > FINE else 4), 0))
    return (nbytes + step - 1) // step * step


class Counts:
    """What the memory of one device, or of a graph, amounts to.

    Attributes:
        used, used_peak: bytes in living blocks.
        held, held_peak: bytes taken from the driver, idle ones included.
        requests, misses, failures: how often memory was asked for, had to be asked of the driver, was not there.
    """

    __slots__ = ("failures", "held", "held_peak", "misses", "requests", "used", "used_peak")

    def __init__(self) -> None:
        self.used = self.used_peak = self.held = self.held_peak = self.requests = self.misses = self.failures = 0

    def take(self, nbytes: int) -> None:
        """Notes bytes that came from the driver (negative: went back)."""
        self.held += nbytes
        self.held_peak = max(self.held_peak, self.held)


class Shelf(list):
    """The idle blocks of one size and stream, by address."""

    __slots__ = ("counts", "keeper", "size")

    def __init__(self, size: int, counts: Counts, keeper: Any = None) -> None:
        self.size, self.counts, self.keeper = size, counts, keeper


class Block:
    """A piece of device memory; owned by the arrays that lie in it."""

    __slots__ = ("__weakref__", "device", "home", "nbytes", "pointer")

    def __init__(self, home: Any, pointer: int, device: int, nbytes: int) -> None:
        self.home = home
        self.pointer = pointer
        self.device = device
        self.nbytes = nbytes

    def __del__(self) -> None:
        home = self.home
        home.append(self.pointer)
        home.counts.used -= home.size

    def __repr__(self) -> str:
        return f"Block(device={self.device}, pointer={self.pointer:#x}, nbytes={self.nbytes:,})"


def allocate(nbytes: int, device: int) -> Block:
    """New memory on `device`, for use on its current stream.

    Raises:
        DeviceError: there is no such device.
        OutOfMemoryError: it has not that much left, or the limit of `set_per_process_memory_fraction` is reached.
    """
    try:
        home = current.shelves[device][nbytes]
        pointer = home.pop()
    except (KeyError, IndexError):
        return _find(nbytes, device)
    counts = home.counts
    counts.requests += 1
    used = counts.used = counts.used + home.size
    if used > counts.used_peak:
        counts.used_peak = used
    return Block(home, pointer, device, nbytes)


def record_stream(block: Block, stream: int) -> None:
    """Notes that work on the raw `stream` uses the block too: its memory is not given to others before that work is done."""
    home = block.home
    if type(home) is _Nowhere:
        return
    if type(home) is not _SharedHome:
        block.home = home = _SharedHome(home, block.device)
    home.streams.add(stream)


# --- where memory comes from ------------------------------------------------------------------------------------------------


class _Nowhere:
    """The home of blocks without memory."""

    size = 0
    counts = Counts()

    def append(self, pointer: int) -> None: ...


_nowhere = _Nowhere()


class _SharedHome:
    """In the place of the shelf of a block that several streams use."""

    __slots__ = ("counts", "device", "shelf", "size", "streams")

    def __init__(self, shelf: Shelf, device: int) -> None:
        self.shelf, self.device, self.size, self.counts = shelf, device, shelf.size, shelf.counts
        self.streams: set[int] = set()

    def append(self, pointer: int) -> None:
        _memories[self.device].leaving.append((pointer, self))


class _Pool:
    """The shelves of one stream."""

    def __init__(self, stream: int) -> None:
        self.stream = stream
        self.shelves: dict[int, Shelf] = {}
        self.by_bytes: dict[int, Shelf] = {}  # the same, by what was asked for
        self.slab = self.slab_end = 0
        self.slabs: list[int] = []
        self.cut: dict[int, int] = {}  # slab -> blocks cut from it

    def shelf(self, nbytes: int, counts: Counts, keeper: Any = None) -> Shelf:
        size = size_class(nbytes)
        shelf = self.shelves.get(size)
        if shelf is None:
            shelf = self.shelves[size] = Shelf(size, counts, keeper)
        if len(self.by_bytes) >= _MOST_SIZES:
            self.by_bytes.clear()
        self.by_bytes[nbytes] = shelf
        return shelf

    def from_slab(self, size: int) -> int:
        """A piece of the slab, or 0 where there is too little left of it."""
        if self.slab + size > self.slab_end:
            return 0
        pointer, self.slab = self.slab, self.slab + size
        self.cut[self.slabs[-1]] += 1
        return pointer

    def add_slab(self, pointer: int) -> None:
        self.slab, self.slab_end = pointer, pointer + SLAB
        self.slabs.append(pointer)
        self.cut[pointer] = 0


class _Memory:
    """The memory of one device."""

    def __init__(self, device: int) -> None:
        self.device = device
        self.counts = Counts()
        self.pools: dict[int, _Pool] = {}
        self.leaving: deque[tuple[int, _SharedHome]] = deque()
        self.fenced: list[tuple[int, Shelf, list[Any]]] = []
        self.limit: int | None = None
        self.lock = threading.RLock()

    def pool(self, stream: int) -> _Pool:
        pool = self.pools.get(stream)
        if pool is None:
            pool = self.pools.setdefault(stream, _Pool(stream))
        return pool

    def take(self, pool: _Pool, shelf: Shelf) -> tuple[Shelf, int]:
        """A block of the shelf's size or somewhat more, from wherever there is one: its home and its address."""
        with self.lock:
            if self.leaving or self.fenced:
                self.collect()
                if shelf:
                    return shelf, shelf.pop()
            if shelf.size <= SMALL:
                pointer = pool.from_slab(shelf.size)
                if not pointer:
                    pool.add_slab(self.ask(SLAB, pool.stream))
                    pointer = pool.from_slab(shelf.size)
                return shelf, pointer
            if shelf.size >= LARGE:
                for size in sorted([size for size in list(pool.shelves) if shelf.size < size <= shelf.size * 5 // 4]):
                    other = pool.shelves[size]
                    if other:
                        return other, other.pop()
                self.give_back(max(IDLE, self.counts.used // 4), shelf.size)
            return shelf, self.ask(shelf.size, pool.stream)

    def ask(self, nbytes: int, stream: int) -> int:
        """Memory from the driver; where it has none, after giving back all that lies idle."""
        used, counts = driver.get("allocate"), self.counts
        counts.misses += 1
        for attempt in range(4):
            if self.limit is None or counts.held + nbytes <= self.limit:
                pointer = used.allocate(self.device, nbytes, stream)
                if pointer:
                    counts.take(nbytes)
                    return pointer
            if attempt == 0:  # the driver lets other streams' memory be used in order
                self.give_back(0)
            elif attempt == 1:  # blocks other streams still use, and memory of sizes that lie between those in use
                self.release_all()
            elif attempt == 2:
                if not gc.collect():
                    break
                self.release_all()
        counts.failures += 1
        raise self.error(nbytes)

    def give_back(self, idle: int, spared: int = 0) -> None:
        """Idle blocks go back to the driver, large ones first, until at most `idle` bytes are left; not those of size `spared`."""
        used, counts = driver.get("empty_cache"), self.counts
        if counts.held - counts.used <= idle:
            return
        shelves = [(size, pool) for pool in list(self.pools.values()) for size in list(pool.shelves) if size > SMALL]
        shelves.sort(key=lambda sized_shelf: -sized_shelf[0])
        left = sum([size * len(pool.shelves[size]) for size, pool in shelves])
        for size, pool in shelves:
            while left > idle and size != spared:
                try:
                    pointer = pool.shelves[size].pop()
                except IndexError:
                    break
                used.free(self.device, pointer, pool.stream)
                counts.take(-size)
                left -= size

    def release_all(self) -> None:
        """Gives back all that lies idle, to the driver and by it to the system. Waits for the device."""
        used = driver.get("empty_cache")
        with self.lock:
            if not driver.captures:
                self.collect()  # marks the streams that blocks wait for
                used.synchronize(self.device)
                self.collect()
                release_orphans()
            self.give_back(0)
            for pool in list(self.pools.values()):
                self.release_slabs(pool)
            if not driver.captures:
                used.synchronize(self.device)
                used.trim(self.device)

    def release_slabs(self, pool: _Pool) -> None:
        """Slabs go back where all blocks cut from them are idle."""
        slabs = sorted(pool.slabs)
        idle = dict.fromkeys(slabs, 0)

        def slab_of(pointer: int) -> int:
            return slabs[bisect.bisect_right(slabs, pointer) - 1]

        drained = [(shelf, _drained(shelf)) for size, shelf in list(pool.shelves.items()) if size <= SMALL]
        for _, pointers in drained:
            for pointer in pointers:
                idle[slab_of(pointer)] += 1
        free = {slab for slab in slabs if idle[slab] == pool.cut[slab]}
        for shelf, pointers in drained:
            shelf[:0] = [pointer for pointer in pointers if slab_of(pointer) not in free]
        for slab in free:
            driver.get("empty_cache").free(self.device, slab, pool.stream)
            self.counts.take(-SLAB)
            if slab == pool.slabs[-1]:
                pool.slab = pool.slab_end = 0
            pool.slabs.remove(slab)
            del pool.cut[slab]

    # --- captures: a graph may use any block that was alive when it was captured, so none that dies meanwhile is given away ---

    def begin_capture(self) -> list[tuple[Shelf, list[int]]]:
        """Puts the idle blocks aside."""
        with self.lock:
            driver.captures += 1
            return self._aside()

    def end_capture(self, aside: list[tuple[Shelf, list[int]]]) -> list[tuple[Shelf, list[int]]]:
        """Takes them back; returns the blocks that died during the capture, for the graph to keep."""
        with self.lock:
            driver.captures -= 1
            died = self._aside()
            restore(aside)
            return died

    def _aside(self) -> list[tuple[Shelf, list[int]]]:
        shelves = [shelf for pool in list(self.pools.values()) for shelf in list(pool.shelves.values()) if shelf]
        return [(shelf, _drained(shelf)) for shelf in shelves]

    def collect(self) -> None:
        """Blocks that several streams used come back where their events have passed."""
        if driver.captures:
            return  # asking for events is not allowed in a capture
        with self.lock:
            while self.leaving:
                pointer, home = self.leaving.popleft()
                self.fenced.append(
                    (pointer, home.shelf, [streams.fence(self.device, stream) for stream in home.streams])
                )
            left = []
            for pointer, shelf, fences in self.fenced:
                while fences and streams.has_passed(fences[-1]):
                    fences.pop()
                if fences:
                    left.append((pointer, shelf, fences))
                else:
                    shelf.append(pointer)
            self.fenced = left

    def error(self, nbytes: int) -> OutOfMemoryError:
        free, total = driver.get("allocate").memory_info(self.device)
        counts = self.counts
        limit = "" if self.limit is None else f"; the limit of set_per_process_memory_fraction is {_amount(self.limit)}"
        return OutOfMemoryError(
            f"CUDA out of memory on cuda:{self.device}: tried to allocate {_amount(nbytes)}. This process has {_amount(counts.used)} "
            f"allocated and {_amount(counts.held)} reserved (the cache has been emptied); {_amount(free)} of {_amount(total)} are free"
            f"{limit}. Use smaller batches, `with no_grad():` where no gradients are needed, bfloat16, or activation "
            f"checkpointing (utils.checkpoint); del tensors that are done with. nvidia-smi shows what other processes hold."
        )


def _drained(shelf: Shelf) -> list[int]:
    """Empties a shelf that other threads may be using."""
    taken = []
    while True:
        try:
            taken.append(shelf.pop())
        except IndexError:
            return taken[::-1]


def restore(aside: list[tuple[Shelf, list[int]]]) -> None:
    for shelf, pointers in aside:
        shelf[:0] = pointers


_memories: dict[int, _Memory] = {}


def memory_of(device: int) -> _Memory:
    memory = _memories.get(device)
    if memory is None:
        memory = _memories.setdefault(device, _Memory(device))
    return memory


def _find(nbytes: int, device: int) -> Block:
    """`allocate` where the shelf is empty or unknown."""
    if nbytes <= 0:
        driver.check_index("allocate", device)
        return Block(_nowhere, 0, device, 0)
    stream = streams.current_handle(device)
    private = current.captures.get(device)
    source = memory_of(device) if private is None else private
    pool = source.pool(stream)
    current.shelves[device] = pool.by_bytes
    home = pool.by_bytes.get(nbytes)
    if home is None:
        home = pool.shelf(nbytes, source.counts, None if private is None else private.keeper)
    try:
        pointer = home.pop()
    except IndexError:
        home, pointer = source.take(pool, home)
    counts = home.counts
    counts.requests += 1
    counts.used += home.size
    counts.used_peak = max(counts.used_peak, counts.used)
    return Block(home, pointer, device, nbytes)


# Called by `empty_cache` first: what layers above keep in a device's memory only to be quicker.
forgetters: list[Callable[[], None]] = []


def empty_cache(device: int) -> None:
    """Gives the device's idle memory back to the system."""
    if device in current.captures:
        raise DeviceError("empty_cache: a CUDA graph is being captured. Empty the cache before or after.")
    memory_of(device).release_all()


def set_limit(device: int, limit: int | None) -> None:
    """The most bytes that may be taken from the driver; None, all there are."""
    memory_of(device).limit = limit


class _Keeper:
    """Owns the memory of a graph: it goes back when neither the graph nor a block in it lives."""

    def __init__(self, device: int) -> None:
        self.device = device
        self.pointers: list[int] = []
        self.nbytes = 0

    def __del__(self) -> None:
        # Not here: a finalizer calls no driver. The next capture or `empty_cache` does it.
        if _orphans is not None and self.pointers:
            _orphans.append((self.device, self.pointers, self.nbytes))


_orphans: deque[tuple[int, list[int], int]] = deque()


class PrivateMemory:
    """Memory for the graphs of one device: what is freed in it is used again in it, and by nobody else."""

    def __init__(self, device: int) -> None:
        self.device = device
        self.counts = Counts()
        self.keeper = _Keeper(device)
        self.hosts: list[Any] = []  # pinned memory that replays read
        self.pools: dict[int, _Pool] = {}
        self.lock = threading.RLock()

    def pool(self, stream: int) -> _Pool:
        return self.pools.setdefault(stream, _Pool(stream))

    def take(self, pool: _Pool, shelf: Shelf) -> tuple[Shelf, int]:
        with self.lock:
            if shelf.size <= SMALL:
                pointer = pool.from_slab(shelf.size)
                if not pointer:
                    pool.add_slab(self.ask(SLAB))
                    pointer = pool.from_slab(shelf.size)
                return shelf, pointer
            return shelf, self.ask(shelf.size)

    def fill_idle(self, value: int) -> None:
        """Writes a byte everywhere where no array lies."""
        used, stream = driver.get("CUDAGraph"), streams.current_handle(self.device)
        with self.lock:
            for pool in self.pools.values():
                for shelf in pool.shelves.values():
                    for pointer in list(shelf):
                        used.fill_bytes(pointer, value, shelf.size, stream)

    def ask(self, nbytes: int) -> int:
        used, memory = driver.get("CUDAGraph"), memory_of(self.device)
        memory.counts.misses += 1
        within = memory.limit is None or memory.counts.held + nbytes <= memory.limit
        pointer = used.allocate_fixed(self.device, nbytes) if within else 0
        if not pointer:
            memory.counts.failures += 1
            raise memory.error(nbytes)
        self.keeper.pointers.append(pointer)
        self.keeper.nbytes += nbytes
        memory.counts.take(nbytes)
        memory.counts.used += nbytes  # all of it counts as in use: nobody else can have it
        memory.counts.used_peak = max(memory.counts.used_peak, memory.counts.used)
        return pointer


def release_orphans() -> None:
    """Memory of dead graphs goes back to the driver."""
    while _orphans:
        device, pointers, nbytes = _orphans.popleft()
        for pointer in pointers:
            driver.get("CUDAGraph").free_fixed(device, pointer)
        memory_of(device).counts.take(-nbytes)
        memory_of(device).counts.used -= nbytes


def _amount(nbytes: int) -> str:
    """`1.50 GiB`, exact below a KiB."""
    size = float(nbytes)
    for unit in ("bytes", "KiB", "MiB"):
        if abs(size) < 1024:
            return f"{nbytes} bytes" if unit == "bytes" else f"{size:.2f} {unit}"
        size /= 1024
    return f"{size:.2f} GiB"
