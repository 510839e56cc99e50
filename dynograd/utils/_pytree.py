"""`torch.utils._pytree`: nested lists, tuples, named tuples, dicts, deques and registered classes as a list of leaves and a structure."""

from __future__ import annotations

import builtins
import json
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dynograd.base.signatures import show_plainly as _show_plainly

__all__ = [
    "SUPPORTED_NODES",
    "Context",
    "GetAttrKey",
    "KeyEntry",
    "LeafSpec",
    "MappingKey",
    "NodeDef",
    "PyTree",
    "SequenceKey",
    "TreeSpec",
    "key_get",
    "keystr",
    "register_pytree_node",
    "tree_all",
    "tree_all_only",
    "tree_any",
    "tree_any_only",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_iter",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_map_only_",
    "tree_map_with_path",
    "tree_structure",
    "tree_unflatten",
    "treespec_dumps",
    "treespec_loads",
]

PyTree = Any
Context = Any
KeyEntry = Any


class SequenceKey(NamedTuple):
    """The place in a list or tuple, on the way to a leaf.

    Args:
        idx: the place, from 0.

    >>> from dynograd.utils import _pytree
    >>> _pytree.SequenceKey(1).get(["a", "b"])
    'b'
    """

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx}]"

    def get(self, sequence: Sequence[Any]) -> Any:
        """What lies there.

        Args:
            sequence: a list or tuple.
        Returns:
            The element.
        """
        return sequence[self.idx]


class MappingKey(NamedTuple):
    """The key in a dict, on the way to a leaf.

    Args:
        key: the key.

    >>> from dynograd.utils import _pytree
    >>> _pytree.MappingKey("a").get({"a": 1})
    1
    """

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Mapping[Any, Any]) -> Any:
        """What lies there.

        Args:
            mapping: a dict.
        Returns:
            The value.
        """
        return mapping[self.key]


class GetAttrKey(NamedTuple):
    """The name of an attribute, on the way to a leaf.

    Args:
        name: the attribute.

    >>> from dynograd.utils import _pytree
    >>> _pytree.GetAttrKey("real").get(2)
    2
    """

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: object) -> Any:
        """What lies there.

        Args:
            obj: any object.
        Returns:
            The attribute.
        """
        return getattr(obj, self.name)


class TreeSpec:
    """What stands around the leaves: a type, its context (keys), and the structures inside; a leaf has the type None.

    Args:
        type: of the container; None for a leaf.
        context: what is needed to build it: the keys of a dict.
        children_specs: the structures inside.

    >>> from dynograd.utils import _pytree
    >>> _pytree.tree_structure({"a": [1, 2]}).num_leaves
    2
    """

    __slots__ = ("children_specs", "context", "num_children", "num_leaves", "num_nodes", "type")

    def __init__(self, type: type | None, context: object = None, children_specs: Iterable[TreeSpec] = ()) -> None:
        self.type, self.context, self.children_specs = type, context, list(children_specs)
        self.num_children = len(self.children_specs)
        self.num_leaves: int = 1 if type is None else sum([child.num_leaves for child in self.children_specs])
        self.num_nodes: int = 1 + sum([child.num_nodes for child in self.children_specs])

    def is_leaf(self) -> bool:
        """Whether this is a leaf itself."""
        return self.type is None

    def children(self) -> list[TreeSpec]:
        """The structures inside."""
        return list(self.children_specs)

    def child(self, index: int) -> TreeSpec:
        """One of them.

        Args:
            index: which, from 0.
        Returns:
            A `TreeSpec`.
        """
        return self.children_specs[index]

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The structure with these leaves.

        Args:
            leaves: as many as the structure has.
        Returns:
            The tree.
        """
        return tree_unflatten(leaves, self)

    def flatten_up_to(self, tree: object) -> list[Any]:
        """What stands in `tree` where this structure has leaves; dicts are compared by their keys, in whichever order.

        Args:
            tree: a tree that begins as this structure does, and may go on where it has leaves.
        Returns:
            A list of as many parts as the structure has leaves.
        Raises:
            ValueError: it begins otherwise.

        >>> from dynograd.utils import _pytree
        >>> _pytree.tree_structure({"a": 0, "b": 0}).flatten_up_to({"b": [1, 2], "a": 3})
        [3, [1, 2]]
        """
        parts: list[Any] = []
        _take_up_to(self, tree, parts)
        return parts

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (self.type, self.context, self.children_specs) == (other.type, other.context, other.children_specs)

    def __hash__(self) -> int:
        return hash((self.type, repr(self.context), tuple(self.children_specs)))

    def __repr__(self) -> str:
        if self.type is None:
            return "*"
        return f"TreeSpec({self.type.__name__}, {self.context!r}, {self.children_specs!r})"


_LEAF = TreeSpec(None)


def LeafSpec() -> TreeSpec:
    """The structure of a leaf.

    Returns:
        A `TreeSpec`.

    >>> from dynograd.utils import _pytree
    >>> _pytree.LeafSpec().is_leaf()
    True
    """
    return _LEAF


# --- the classes that are taken apart -------------------------------------------------------------------------------------------


class NodeDef(NamedTuple):
    """How objects of a class are taken apart and put together.

    Args:
        type: the class.
        flatten_fn, unflatten_fn, flatten_with_keys_fn: as for `register_pytree_node`.

    >>> from dynograd.utils import _pytree
    >>> _pytree.NodeDef(set, lambda s: (sorted(s), None), lambda leaves, context: set(leaves), None).type
    <class 'set'>
    """

    type: type
    flatten_fn: Callable[[Any], tuple[list[Any], Any]]
    unflatten_fn: Callable[[Any, Any], Any]
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Any]] | None


def _dict_flatten(tree: Any) -> tuple[list[Any], Any]:
    return list(tree.values()), list(tree)


def _dict_unflatten(values: Any, keys: Any) -> Any:
    return dict(zip(keys, values))


def _dict_flatten_with_keys(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
    values, keys = _dict_flatten(tree)
    return [(MappingKey(key), value) for key, value in zip(keys, values)], keys


def _list_flatten(tree: Any) -> tuple[list[Any], Any]:
    return list(tree), None


def _list_flatten_with_keys(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
    return [(SequenceKey(place), value) for place, value in enumerate(tree)], None


def _defaultdict_flatten_with_keys(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
    pairs, keys = _dict_flatten_with_keys(tree)
    return pairs, [tree.default_factory, keys]


def _deque_flatten_with_keys(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
    return _list_flatten_with_keys(tree)[0], tree.maxlen


def _namedtuple_flatten_with_keys(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
    return [(GetAttrKey(name), value) for name, value in zip(tree._fields, tree)], type(tree)


_NAMED_TUPLE: Any = namedtuple  # the function stands for all their classes, as in PyTorch
SUPPORTED_NODES: dict[type, NodeDef] = {}
for _node in (
    NodeDef(dict, _dict_flatten, _dict_unflatten, _dict_flatten_with_keys),
    NodeDef(OrderedDict, _dict_flatten, lambda values, keys: OrderedDict(zip(keys, values)), _dict_flatten_with_keys),
    NodeDef(
        defaultdict,
        lambda tree: (list(tree.values()), [tree.default_factory, list(tree)]),
        lambda values, context: defaultdict(context[0], zip(context[1], values)),
        _defaultdict_flatten_with_keys,
    ),
    NodeDef(list, _list_flatten, lambda values, context: list(values), _list_flatten_with_keys),
    NodeDef(tuple, _list_flatten, lambda values, context: tuple(values), _list_flatten_with_keys),
    NodeDef(
        deque,
        lambda tree: (list(tree), tree.maxlen),
        lambda values, most: deque(values, most),
        _deque_flatten_with_keys,
    ),
    NodeDef(
        _NAMED_TUPLE,
        lambda tree: (list(tree), type(tree)),
        lambda values, kind: kind(*values),
        _namedtuple_flatten_with_keys,
    ),
):
    SUPPORTED_NODES[_node.type] = _node


class _Form(NamedTuple):
    """How structures of a class are written as text."""

    name: str
    of_context: Callable[[Any], Any]
    to_context: Callable[[Any], Any]


def _context_to_text(context: Any) -> str:
    try:
        return json.dumps(context)
    except TypeError as error:
        raise TypeError(
            f"treespec_dumps: Unable to serialize context {context!r}: JSON has nothing of the kind. Give register_pytree_node "
            f"to_dumpable_context= and from_dumpable_context=."
        ) from error


def _defaultdict_to_form(context: Any) -> dict[str, Any]:
    factory, keys = context
    return {
        "default_factory_module": factory.__module__,
        "default_factory_name": factory.__qualname__,
        "dict_context": keys,
    }


def _defaultdict_from_form(form: dict[str, Any]) -> list[Any]:
    module, name = form["default_factory_module"], form["default_factory_name"]
    factory = getattr(builtins, name, None) if module == "builtins" else None
    if not isinstance(factory, type):  # a text imports nothing, and calls what Python itself has for values
        raise ValueError(
            f"treespec_loads: expected a defaultdict of a type of Python's own, such as list, got {module}.{name}. "
            f"Register a class of dicts for it by register_pytree_node."
        )
    return [factory, form["dict_context"]]


_FORMS: dict[type, _Form] = {
    kind: _Form(f"{kind.__module__}.{kind.__qualname__}", _context_to_text, json.loads)
    for kind in (dict, OrderedDict, list, tuple, deque)
}
_FORMS[defaultdict] = _Form("collections.defaultdict", _defaultdict_to_form, _defaultdict_from_form)
_NAMED_TUPLES: dict[type, str] = {}


def _register_namedtuple(cls: type, *, serialized_type_name: str) -> None:
    """Names a class of named tuples for the texts of `treespec_dumps`."""
    _NAMED_TUPLES[cls] = serialized_type_name


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[Any, Any]],
    unflatten_fn: Callable[[Any, Any], Any],
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Any], Any] | None = None,
    from_dumpable_context: Callable[[Any], Any] | None = None,
    flatten_with_keys_fn: Callable[..., Any] | None = None,
) -> None:
    """Has objects of a class taken apart: `flatten_fn(object)` gives (children, context), `unflatten_fn(children, context)` the object.

    Args:
        cls: the class.
        flatten_fn, unflatten_fn: the two functions.
        serialized_type_name: of the class in the text of `treespec_dumps`; None: its structures have no text.
        to_dumpable_context, from_dumpable_context: make of a context what JSON can say, and the context of that; None: JSON says it itself.
        flatten_with_keys_fn: gives ((key, child) pairs, context), for the functions with paths.
    Raises:
        ValueError: the class is registered, or known; or only one of the functions for contexts is given.

    >>> from dynograd.utils._pytree import register_pytree_node, tree_map
    >>> class Pair:
    ...     def __init__(self, one, two):
    ...         self.one, self.two = one, two
    >>> register_pytree_node(Pair, lambda pair: ([pair.one, pair.two], None), lambda children, context: Pair(*children))
    >>> tree_map(lambda x: x + 1, Pair(1, 2)).two
    3
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"register_pytree_node: {cls.__name__} is already registered as pytree node.")
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(
            f"register_pytree_node: expected both to_dumpable_context and from_dumpable_context for {cls.__name__}, or none of them."
        )
    if serialized_type_name is not None:
        if to_dumpable_context is None or from_dumpable_context is None:
            to_dumpable_context, from_dumpable_context = _context_to_text, json.loads
        _FORMS[cls] = _Form(serialized_type_name, to_dumpable_context, from_dumpable_context)
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


_register_pytree_node = register_pytree_node


def _get_node_type(tree: Any) -> Any:
    """The class under which a tree is in `SUPPORTED_NODES`, its own if it is in none."""
    kind = type(tree)
    if kind not in SUPPORTED_NODES and isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return namedtuple
    return kind


def _is_leaf(tree: Any, is_leaf: Any = None) -> bool:
    """Whether a tree is not taken apart."""
    return (is_leaf is not None and bool(is_leaf(tree))) or _get_node_type(tree) not in SUPPORTED_NODES


# --- apart and together ---------------------------------------------------------------------------------------------------------


def tree_flatten(tree: object, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves in order, and the structure that puts them back.

    Args:
        tree: tuples, lists, dicts and their like, nested.
        is_leaf: a function of a part; where it is True, the part is not taken apart.
    Returns:
        (list, `TreeSpec`).

    >>> from dynograd.utils._pytree import tree_flatten, tree_unflatten
    >>> leaves, spec = tree_flatten({"a": [1, 2], "b": (3,)})
    >>> leaves, tree_unflatten([x + 1 for x in leaves], spec)
    ([1, 2, 3], {'a': [2, 3], 'b': (4,)})
    """
    leaves: list[Any] = []
    return leaves, _take(tree, leaves, is_leaf)


def _take(tree: Any, leaves: list[Any], is_leaf: Any) -> TreeSpec:
    if _is_leaf(tree, is_leaf):
        leaves.append(tree)
        return _LEAF
    kind = _get_node_type(tree)
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    return TreeSpec(kind, context, [_take(child, leaves, is_leaf) for child in children])


_DICTS = (dict, OrderedDict, defaultdict)


def _take_up_to(spec: TreeSpec, tree: Any, parts: list[Any]) -> None:
    if spec.is_leaf():
        parts.append(tree)
        return
    kind = _get_node_type(tree)
    both_dicts = kind in _DICTS and spec.type in _DICTS
    if kind is not spec.type and not both_dicts:
        raise ValueError(f"Node type mismatch; expected {spec.type!r}, but got {kind!r}. Give trees of one structure.")
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree) if kind in SUPPORTED_NODES else ([], None)
    if both_dicts:
        names: Any = spec.context
        keys = names[1] if spec.type is defaultdict else names
        if set(keys) != set(tree):
            raise ValueError(
                f"Node keys mismatch; expected {list(keys)}, but got {list(tree)}. Give trees of one structure."
            )
        children = [tree[key] for key in keys]
    elif len(children) != spec.num_children:
        raise ValueError(
            f"Node arity mismatch; expected {spec.num_children}, but got {len(children)}. Give trees of one structure."
        )
    elif kind is not deque and context != spec.context:  # of a deque, its largest length
        raise ValueError(
            f"Node context mismatch for {kind!r}; expected {spec.context!r}, but got {context!r}. Give trees of one structure."
        )
    for child, part in zip(spec.children_specs, children, strict=True):
        _take_up_to(child, part, parts)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The structure with these leaves.

    Args:
        leaves: as many as the structure has.
        treespec: a `TreeSpec`.
    Returns:
        The tree.
    Raises:
        ValueError: too many or too few leaves.
        TypeError: it is no structure.

    >>> from dynograd.utils import _pytree
    >>> _pytree.tree_unflatten([1, 2], _pytree.tree_structure({"a": 0, "b": 0}))
    {'a': 1, 'b': 2}
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"tree_unflatten: expected treespec to be a TreeSpec, got {type(treespec).__name__}.")
    listed = list(leaves)
    if len(listed) != treespec.num_leaves:
        raise ValueError(f"tree_unflatten: expected {treespec.num_leaves} leaves, got {len(listed)}.")
    return _put(treespec, iter(listed))


def _put(spec: TreeSpec, leaves: Iterator[Any]) -> Any:
    if spec.type is None:
        return next(leaves)
    return SUPPORTED_NODES[spec.type].unflatten_fn([_put(child, leaves) for child in spec.children_specs], spec.context)


def tree_iter(tree: object, is_leaf: Callable[[Any], bool] | None = None) -> Iterator[Any]:
    """The leaves, one after the other.

    Args:
        tree: tuples, lists, dicts and their like, nested.
        is_leaf: a function of a part; where it is True, the part is not taken apart.
    Returns:
        An iterator.

    >>> from dynograd.utils import _pytree
    >>> [*_pytree.tree_iter({"a": [1, 2]})]
    [1, 2]
    """
    return iter(tree_leaves(tree, is_leaf))


def tree_leaves(tree: object, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves in order.

    Args:
        tree: tuples, lists, dicts and their like, nested.
        is_leaf: a function of a part; where it is True, the part is not taken apart.
    Returns:
        A list.

    >>> from dynograd.utils import _pytree
    >>> _pytree.tree_leaves({"a": [1, 2]})
    [1, 2]
    """
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: object, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """The structure alone.

    Args:
        tree: tuples, lists, dicts and their like, nested.
        is_leaf: a function of a part; where it is True, the part is not taken apart.
    Returns:
        A `TreeSpec`.

    >>> from dynograd.utils import _pytree
    >>> _pytree.tree_structure([1, 2]) == _pytree.tree_structure([3, 4])
    True
    """
    return tree_flatten(tree, is_leaf)[1]


def tree_map(
    func: Callable[..., Any], tree: object, *rests: object, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """The structure with `func` of each leaf (and of the same leaves of `rests`).

    Args:
        func: a function of a leaf.
        rests: more trees that begin with this structure; what they have in the places of its leaves are the function's next arguments.
        tree: tuples, lists, dicts and their like, nested.
        is_leaf: a function of a part; where it is True, the part is not taken apart.
    Returns:
        A tree of the same structure.

    >>> from dynograd.utils import _pytree
    >>> _pytree.tree_map(lambda x: 10 * x, {"a": [1, 2]})
    {'a': [10, 20]}
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    return tree_unflatten([func(*each) for each in zip(leaves, *others, strict=True)], spec)


def tree_map_(
    func: Callable[..., Any], tree: object, *rests: object, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """Calls `func` for each leaf, and gives the tree back.

    Args:
        func: a function of a leaf.
        rests: more trees that begin with this structure; what they have in the places of its leaves are the function's next arguments.
        tree: tuples, lists, dicts and their like, nested.
        is_leaf: a function of a part; where it is True, the part is not taken apart.
    Returns:
        The tree, as it is.

    >>> from dynograd.utils import _pytree
    >>> _pytree.tree_map_(print, [1, 2])
    1
    2
    [1, 2]
    """
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _only(kind: Any, func: Any) -> Callable[[Any], Any]:
    """`func` for values of a type (or types, or for which a function says so); the others stay."""
    chosen = kind if callable(kind) and not isinstance(kind, type) else lambda leaf: isinstance(leaf, kind)
    return lambda leaf: func(leaf) if chosen(leaf) else leaf


def tree_map_only(
    kind: type | tuple[type, ...], func: Callable[..., Any], tree: object, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """As `tree_map`, for the leaves of a type; the others stay.

    Args:
        kind: a type, or a tuple of types.
        func: a function of a leaf.
        tree: tuples, lists, dicts and their like, nested.
        is_leaf: a function of a part; where it is True, the part is not taken apart.
    Returns:
        A tree of the same structure.

    >>> from dynograd.utils import _pytree
    >>> _pytree.tree_map_only(int, lambda x: 10 * x, [1, "a"])
    [10, 'a']
    """
    return tree_map(_only(kind, func), tree, is_leaf=is_leaf)


def tree_map_only_(
    kind: type | tuple[type, ...], func: Callable[..., Any], tree: object, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """Calls `func` for each leaf of a type, and gives the tree back.

    Args:
        kind: a type, or a tuple of types.
        func: a function of a leaf.
        tree: tuples, lists, dicts and their like, nested.
        is_leaf: a function of a part; where it is True, the part is not taken apart.
    Returns:
        The tree, as it is.

    >>> from dynograd.utils import _pytree
    >>> _pytree.tree_map_only_(int, print, [1, "a"])
    1
    [1, 'a']
    """
    return tree_map_(_only(kind, func), tree, is_leaf=is_leaf)


def tree_any(pred: Callable[[Any], bool], tree: object, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether a leaf satisfies `pred`.

    Args:
        pred: a function of a leaf.
        tree: tuples, lists, dicts and their like, nested.
        is_leaf: a function of a part; where it is True, the part is not taken apart.
    Returns:
        True or False.

    >>> from dynograd.utils import _pytree
    >>> _pytree.tree_any(lambda x: x > 1, [1, 2])
    True
    """
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all(pred: Callable[[Any], bool], tree: object, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether all leaves satisfy `pred`.

    Args:
        pred: a function of a leaf.
        tree: tuples, lists, dicts and their like, nested.
        is_leaf: a function of a part; where it is True, the part is not taken apart.
    Returns:
        True or False.

    >>> from dynograd.utils import _pytree
    >>> _pytree.tree_all(lambda x: x > 1, [1, 2])
    False
    """
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any_only(
    kind: type | tuple[type, ...],
    pred: Callable[[Any], bool],
    tree: object,
    is_leaf: Callable[[Any], bool] | None = None,
) -> bool:
    """Whether a leaf of a type satisfies `pred`.

    Args:
        kind: a type, or a tuple of types.
        pred: a function of a leaf.
        tree: tuples, lists, dicts and their like, nested.
        is_leaf: a function of a part; where it is True, the part is not taken apart.
    Returns:
        True or False.

    >>> from dynograd.utils import _pytree
    >>> _pytree.tree_any_only(int, lambda x: x > 1, [1, "a"])
    False
    """
    return any([pred(leaf) for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, kind)])


def tree_all_only(
    kind: type | tuple[type, ...],
    pred: Callable[[Any], bool],
    tree: object,
    is_leaf: Callable[[Any], bool] | None = None,
) -> bool:
    """Whether all leaves of a type satisfy `pred`.

    Args:
        kind: a type, or a tuple of types.
        pred: a function of a leaf.
        tree: tuples, lists, dicts and their like, nested.
        is_leaf: a function of a part; where it is True, the part is not taken apart.
    Returns:
        True or False.

    >>> from dynograd.utils import _pytree
    >>> _pytree.tree_all_only(int, lambda x: x > 0, [1, "a"])
    True
    """
    return all([pred(leaf) for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, kind)])


# --- with the way to each leaf --------------------------------------------------------------------------------------------------


def tree_flatten_with_path(
    tree: object, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[tuple[tuple[Any, ...], Any]], TreeSpec]:
    """(path, leaf) of each leaf, and the structure.

    Args:
        tree: tuples, lists, dicts and their like, nested.
        is_leaf: a function of a part; where it is True, the part is not taken apart.
    Returns:
        (list of (path, leaf), `TreeSpec`).

    >>> from dynograd.utils._pytree import keystr, tree_flatten_with_path
    >>> [(keystr(path), leaf) for path, leaf in tree_flatten_with_path({"a": [1, 2]})[0]]
    [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    return list(_with_path((), tree, is_leaf)), tree_structure(tree, is_leaf)


def _with_path(path: tuple[Any, ...], tree: Any, is_leaf: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if _is_leaf(tree, is_leaf):
        yield path, tree
        return
    node = SUPPORTED_NODES[_get_node_type(tree)]
    if node.flatten_with_keys_fn is None:
        raise ValueError(
            f"tree_flatten_with_path: {node.type.__name__} was registered without flatten_with_keys_fn, so paths through it have no keys. "
            f"Register it with one."
        )
    for key, child in node.flatten_with_keys_fn(tree)[0]:
        yield from _with_path((*path, key), child, is_leaf)


def tree_leaves_with_path(
    tree: object, is_leaf: Callable[[Any], bool] | None = None
) -> list[tuple[tuple[Any, ...], Any]]:
    """(path, leaf) of each leaf.

    Args:
        tree: tuples, lists, dicts and their like, nested.
        is_leaf: a function of a part; where it is True, the part is not taken apart.
    Returns:
        A list of pairs; a path is a tuple of keys.

    >>> from dynograd.utils import _pytree
    >>> [leaf for path, leaf in _pytree.tree_leaves_with_path({"a": [1, 2]})]
    [1, 2]
    """
    return list(_with_path((), tree, is_leaf))


def tree_map_with_path(
    func: Callable[..., Any], tree: object, *rests: object, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """The structure with `func(path, leaf, ...)` of each leaf.

    Args:
        func: a function of path and leaf.
        rests: more trees that begin with this structure; what they have in the places of its leaves are the function's next arguments.
        tree: tuples, lists, dicts and their like, nested.
        is_leaf: a function of a part; where it is True, the part is not taken apart.
    Returns:
        A tree of the same structure.

    >>> from dynograd.utils import _pytree
    >>> _pytree.tree_map_with_path(lambda path, x: _pytree.keystr(path), {"a": 1})
    {'a': "['a']"}
    """
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    return tree_unflatten([func(*pair, *more) for pair, *more in zip(pairs, *others, strict=True)], spec)


def keystr(kp: Iterable[Any]) -> str:
    """A path as text.

    Args:
        kp: a path.
    Returns:
        A text.

    >>> from dynograd.utils import _pytree
    >>> _pytree.keystr((_pytree.MappingKey("a"), _pytree.SequenceKey(0)))
    "['a'][0]"
    """
    return "".join([str(key) for key in kp])


def key_get(obj: object, kp: Iterable[Any]) -> Any:
    """What lies at a path.

    Args:
        obj: a tree.
        kp: a path.
    Returns:
        The part.

    >>> from dynograd.utils import _pytree
    >>> _pytree.key_get({"a": [1, 2]}, (_pytree.MappingKey("a"), _pytree.SequenceKey(1)))
    2
    """
    for key in kp:
        obj = key.get(obj)
    return obj


# --- as text --------------------------------------------------------------------------------------------------------------------

DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL = 1


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """A structure as JSON, from which `treespec_loads` makes it again.

    Args:
        treespec: a `TreeSpec`; of registered classes those with a `serialized_type_name`.
        protocol: 1, the only one.
    Returns:
        A text.
    Raises:
        TypeError: it is no `TreeSpec`, or JSON cannot say a context.
        ValueError: an unknown protocol.
        NotImplementedError: a class without a name for this.

    >>> from dynograd.utils import _pytree
    >>> _pytree.treespec_dumps(_pytree.tree_structure([]))
    '[1, {"type": "builtins.list", "context": "null", "children_spec": []}]'
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"treespec_dumps: Expected `treespec` to be an instance of TreeSpec, got {type(treespec).__name__}. See tree_structure()."
        )
    chosen = DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL if protocol is None else protocol
    return json.dumps([_known("treespec_dumps", chosen), _form_of(treespec)])


def treespec_loads(serialized: str) -> TreeSpec:
    """The structure that `treespec_dumps` has written.

    Args:
        serialized: the text.
    Returns:
        A `TreeSpec`.
    Raises:
        ValueError: an unknown protocol.
        NotImplementedError: a class that is not registered under its name here.

    >>> from dynograd.utils import _pytree
    >>> _pytree.treespec_loads(_pytree.treespec_dumps(_pytree.tree_structure({"a": (1, 2)})))
    TreeSpec(dict, ['a'], [TreeSpec(tuple, None, [*, *])])
    """
    protocol, form = json.loads(serialized)
    _known("treespec_loads", protocol)
    return _spec_of(form)


def _known(who: str, protocol: int) -> int:
    if protocol != DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL:
        raise ValueError(f"{who}: Unknown protocol {protocol}. Available protocols: [1].")
    return protocol


def _form_of(spec: TreeSpec) -> dict[str, Any]:
    """What JSON says of a structure."""
    name: str | None = None
    context: Any = None
    if spec.type is namedtuple:
        if spec.context not in _NAMED_TUPLES:
            raise NotImplementedError(
                f"treespec_dumps: Can't serialize TreeSpec of namedtuple class {spec.context}: it has no name. Register it by "
                f"_register_namedtuple(cls, serialized_type_name=...)."
            )
        name, context = "collections.namedtuple", _NAMED_TUPLES[spec.context]
    elif spec.type is not None:
        if spec.type not in _FORMS:
            raise NotImplementedError(
                f"treespec_dumps: No registered serialization name for {spec.type} found. Give register_pytree_node a "
                f"serialized_type_name."
            )
        name, context = _FORMS[spec.type].name, _FORMS[spec.type].of_context(spec.context)
    return {"type": name, "context": context, "children_spec": [_form_of(child) for child in spec.children_specs]}


def _spec_of(form: dict[str, Any]) -> TreeSpec:
    """The structure of what JSON says."""
    name, context, children = form["type"], form["context"], [_spec_of(child) for child in form["children_spec"]]
    if name is None:
        return LeafSpec()
    if name == "collections.namedtuple":
        for kind, its_name in _NAMED_TUPLES.items():
            if its_name == context:
                return TreeSpec(_NAMED_TUPLE, kind, children)
    for kind, known in _FORMS.items():
        if known.name == name:
            return TreeSpec(kind, known.to_context(context), children)
    raise NotImplementedError(f"treespec_loads: Deserializing {name} is not registered here ({context}).")


_show_plainly(globals())
