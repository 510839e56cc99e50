"""`torch.utils.weak`: references that do not keep an object alive, and dicts by the identity of their keys.

Tensors compare elementwise, so that `weakref.WeakKeyDictionary` cannot hold them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.tensor.tensor import Tensor

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary", "WeakTensorRefKey"]


class WeakIdRef(weakref.ref):
    """A weak reference that equals those to the same object, whatever the object's own `==` says.

    Args:
        key: the object.
        callback: a function of the reference, called when the object is gone.

    >>> from dynograd.utils.weak import WeakIdRef
    >>> x = dynograd.ones(2)
    >>> WeakIdRef(x) == WeakIdRef(x), WeakIdRef(x) == WeakIdRef(dynograd.ones(2))
    (True, False)
    """

    __slots__ = ("_id",)

    def __init__(self, key: object, callback: Callable[[Any], Any] | None = None) -> None:
        initialize: Any = super().__init__
        initialize(key, callback)
        self._id = id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        key = self()
        if key is not None and isinstance(other, WeakIdRef):
            return key is other()
        return self is other

    def __ne__(self, other: object) -> bool:
        return not self == other


WeakTensorRefKey = WeakIdRef


class WeakIdKeyDictionary(MutableMapping):
    """A dict by the identity of its keys, which it does not keep alive: an entry goes with its key.

    Args:
        dict: what it holds at first.
        ref_type: the type of its references.

    >>> from dynograd.utils.weak import WeakIdKeyDictionary
    >>> x = dynograd.ones(2)
    >>> names = WeakIdKeyDictionary({x: "x"})
    >>> names[x], x in names, dynograd.ones(2) in names
    ('x', True, False)
    >>> del x
    >>> len(names)
    0
    """

    def __init__(self, dict: object = None, ref_type: type[weakref.ref] = WeakIdRef) -> None:
        self.data: Any = {}
        self.ref_type = ref_type
        data = weakref.ref(self)

        def remove(reference: Any) -> None:
            own = data()
            if own is not None:
                own.data.pop(reference, None)

        self._remove = remove
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._remove)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: Any) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # what no weak reference can be made to
            return False

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def keyrefs(self) -> list[Any]:
        """The references to the keys."""
        return list(self.data)

    def copy(self) -> WeakIdKeyDictionary:
        """The same entries in another dict."""
        return type(self)(self, self.ref_type)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WeakIdKeyDictionary):
            return NotImplemented
        return {id(key): value for key, value in self.items()} == {id(key): value for key, value in other.items()}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} entries>"


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor; called, it gives the tensor, or None.

    Args:
        tensor: the tensor.
    Raises:
        TypeError: `tensor` is none.

    >>> from dynograd.utils.weak import TensorWeakRef
    >>> x = tensor([1.0])
    >>> TensorWeakRef(x)() is x
    True
    """

    def __init__(self, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"TensorWeakRef: expected a tensor, got {type(tensor).__name__}.")
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Tensor | None:
        return self.ref()


_show_plainly(globals())
