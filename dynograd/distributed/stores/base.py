"""Store: what processes tell each other by names. PrefixStore: one whose names begin alike."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NoReturn

__all__ = ["PrefixStore", "Store", "as_bytes", "seconds"]


def as_bytes(who: str, value: Any) -> bytes:
    """A value as stores keep it.

    Raises:
        TypeError: neither text nor bytes.
    """
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise TypeError(f"{who}: values are text or bytes, got {type(value).__name__}. Write str(value), or pickle it.")


def as_key(who: str, key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"{who}: keys are text, got {type(key).__name__}. Write str(key).")
    return key


def seconds(timeout: timedelta) -> float:
    return timeout.total_seconds()


class Store:
    """Values under names, which all processes of a program see. A class derived from it defines `set`, `get`, `add` and `compare_set`.

    Values are text or bytes and come back as bytes. `HashStore` serves the threads of one process, `FileStore` processes that see a file,
    `TCPStore` processes that reach a port.

    >>> store = dynograd.distributed.HashStore()
    >>> store.set("name", "value")
    >>> store.get("name"), store.add("count", 2), store.check(["other"])
    (b'value', 2, False)
    """

    def __init__(self) -> None:
        self._timeout = timedelta(seconds=300)

    # --- what a derived class defines ----------------------------------------------------------------------------------

    def set(self, key: str, value: str | bytes) -> None:
        """Puts a value under a name; one that is there is replaced.

        Args:
            key: the name.
            value: text or bytes.
        """
        self._undefined("set")

    def get(self, key: str) -> bytes:
        """The value under a name, waiting for one up to `timeout`.

        Args:
            key: the name.
        Returns:
            Bytes.
        Raises:
            DistStoreError: there was none in time.
        """
        self._undefined("get")

    def add(self, key: str, amount: int) -> int:
        """Adds to the number under a name, which begins with 0. It is kept as decimal digits.

        Args:
            key: the name.
            amount: an int.
        Returns:
            The sum.
        Raises:
            ValueError: what is there is no number.
        """
        self._undefined("add")

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        """Puts a value under a name where the expected one is there, or where nothing is and nothing is expected (an empty text).

        Args:
            key: the name.
            expected_value: what has to be there.
            desired_value: what is put there then.
        Returns:
            What is there now; where nothing is, the expected value.
        """
        self._undefined("compare_set")

    def check(self, keys: Sequence[str]) -> bool:
        """Whether values are under all of these names now.

        Args:
            keys: a list of names.
        Returns:
            True or False.
        """
        self._undefined("check")

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Waits until values are under all of these names.

        Args:
            keys: a list of names.
            timeout: how long; None is the store's `timeout`.
        Raises:
            DistStoreError: they were not in time.
        """
        self._undefined("wait")

    def delete_key(self, key: str) -> bool:
        """Takes a name out.

        Args:
            key: the name.
        Returns:
            Whether it was there.
        """
        self._undefined("delete_key")

    def num_keys(self) -> int:
        """How many names there are, those with which a store counts its users among them.

        Returns:
            An int.
        """
        self._undefined("num_keys")

    def list_keys(self) -> list[str]:
        """The names that there are.

        Returns:
            A list of texts.
        """
        self._undefined("list_keys")

    def clone(self) -> Store:
        """A store with the same names and values, for use in another thread.

        Returns:
            A `Store`.
        """
        self._undefined("clone")

    def queue_push(self, key: str, value: str | bytes) -> None:
        """Puts a value at the end of a queue. Queues are apart from the values of `set`.

        Args:
            key: the name of the queue.
            value: text or bytes.
        """
        self._undefined("queue_push")

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Takes the first value of a queue.

        Args:
            key: the name of the queue.
            block: whether to wait for one, up to `timeout`.
        Returns:
            Bytes.
        Raises:
            QueueEmptyError: there is none, and it is not waited for. DistStoreError: none came in time.
        """
        self._undefined("queue_pop")

    def queue_len(self, key: str) -> int:
        """How many values are in a queue.

        Args:
            key: the name of the queue.
        Returns:
            An int, 0 where there is no such queue.
        """
        self._undefined("queue_len")

    def has_extended_api(self) -> bool:
        """Whether `append`, `multi_get` and `multi_set` are one step each.

        Returns:
            True or False; they work either way.
        """
        return False

    # --- what follows from it ------------------------------------------------------------------------------------------

    @property
    def timeout(self) -> timedelta:
        """How long `get` and `wait` wait."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """How long `get` and `wait` wait from now on.

        Args:
            timeout: a `timedelta`.
        """
        if not isinstance(timeout, timedelta):
            raise TypeError(f"set_timeout: expected a timedelta, got {type(timeout).__name__} ({timeout!r}).")
        self._timeout = timeout

    def append(self, key: str, value: str | bytes) -> None:
        """Puts bytes behind those under a name.

        Args:
            key: the name.
            value: text or bytes.
        """
        new = as_bytes("append", value)
        there = self.compare_set(key, b"", b"")  # what is there, or an empty value from now on
        while new and (now := self.compare_set(key, there, there + new)) != there + new:
            there = now

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """The values under names, waited for up to `timeout`.

        Args:
            keys: a list of names.
        Returns:
            A list of bytes.
        """
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Puts values under names.

        Args:
            keys: a list of names.
            values: as many values.
        Raises:
            ValueError: not as many.
        """
        for key, value in _pairs(keys, values):
            self.set(key, value)

    def barrier(self, key: str, world_size: int, timeout: timedelta | None = None) -> None:
        """Waits until `world_size` callers are here, each time anew.

        Args:
            key: a name for the place.
            world_size: how many callers.
            timeout: how long; None is the store's `timeout`.
        Raises:
            DistStoreError: they were not in time.
        """
        number = self.add(f"{key}/arrived", 1)
        done = f"{key}/done/{(number - 1) // world_size}"
        if number % world_size == 0:
            self.set(done, b"1")
        self.wait([done], self.timeout if timeout is None else timeout)

    def _undefined(self, name: str) -> NoReturn:
        raise NotImplementedError(
            f"{type(self).__name__}: {name}() is not defined. A class derived from Store defines what it is asked for."
        )


def _pairs(keys: Sequence[str], values: Sequence[Any]) -> list[tuple[str, bytes]]:
    if len(keys) != len(values):
        raise ValueError(f"multi_set: {len(keys)} keys, but {len(values)} values. Give one for each.")
    return [(as_key("multi_set", key), as_bytes("multi_set", value)) for key, value in zip(keys, values)]


class PrefixStore(Store):
    """A part of another store: the names begin with a prefix there.

    Args:
        prefix: how they begin; "prefix/name" stands in the other store.
        store: the other store.
    Raises:
        ValueError: no store.

    >>> store = dynograd.distributed.HashStore()
    >>> dynograd.distributed.PrefixStore("job", store).set("name", "value")
    >>> store.get("job/name")
    b'value'
    """

    def __init__(self, prefix: str, store: Store) -> None:
        if not isinstance(store, Store):
            raise ValueError(f"PrefixStore: expected a Store, got {type(store).__name__}. Make one first: HashStore().")
        self._prefix, self._store = as_key("PrefixStore", prefix), store

    @property
    def underlying_store(self) -> Store:
        """The other store."""
        return self._store

    @property
    def _underlying_non_prefix_store(self) -> Store:
        store = self._store
        return store._underlying_non_prefix_store if isinstance(store, PrefixStore) else store

    @property
    def timeout(self) -> timedelta:
        """How long the other store waits."""
        return self._store.timeout

    def set_timeout(self, timeout: timedelta) -> None:
        self._store.set_timeout(timeout)

    def _key(self, who: str, key: Any) -> str:
        return f"{self._prefix}/{as_key(who, key)}"

    def set(self, key: str, value: str | bytes) -> None:
        self._store.set(self._key("set", key), as_bytes("set", value))

    def get(self, key: str) -> bytes:
        return self._store.get(self._key("get", key))

    def add(self, key: str, amount: int) -> int:
        return self._store.add(self._key("add", key), amount)

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        values = [as_bytes("compare_set", value) for value in (expected_value, desired_value)]
        return self._store.compare_set(self._key("compare_set", key), *values)

    def check(self, keys: Sequence[str]) -> bool:
        return self._store.check([self._key("check", key) for key in keys])

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        names = [self._key("wait", key) for key in keys]
        self._store.wait(names) if timeout is None else self._store.wait(names, timeout)

    def delete_key(self, key: str) -> bool:
        return self._store.delete_key(self._key("delete_key", key))

    def num_keys(self) -> int:
        return self._store.num_keys()

    def list_keys(self) -> list[str]:
        beginning = f"{self._prefix}/"
        return [key.removeprefix(beginning) for key in self._store.list_keys() if key.startswith(beginning)]

    def clone(self) -> PrefixStore:
        return PrefixStore(self._prefix, self._store.clone())

    def append(self, key: str, value: str | bytes) -> None:
        self._store.append(self._key("append", key), as_bytes("append", value))

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        return self._store.multi_get([self._key("multi_get", key) for key in keys])

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        pairs = _pairs(keys, values)
        self._store.multi_set([self._key("multi_set", key) for key, _ in pairs], [value for _, value in pairs])

    def queue_push(self, key: str, value: str | bytes) -> None:
        self._store.queue_push(self._key("queue_push", key), as_bytes("queue_push", value))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        return self._store.queue_pop(self._key("queue_pop", key), block)

    def queue_len(self, key: str) -> int:
        return self._store.queue_len(self._key("queue_len", key))

    def has_extended_api(self) -> bool:
        return self._store.has_extended_api()
