"""`torch.distributed.device_mesh`: processes laid out as a grid with named dims, and a group for each line of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dynograd.distributed.groups import get_process_group_ranks, get_rank, group_of, init_process_group, new_group
from dynograd.distributed.process_groups import ProcessGroup, world
from dynograd.tensor.creation import tensor
from dynograd.tensor.tensor import Tensor

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """A grid of processes. Along each dim, the processes that differ in that place alone are a group.

    All processes of the world make the same meshes in the same order; those that stand in none of its places, too.

    Args:
        device_type: "cpu" or "cuda".
        mesh: the ranks of the processes in the world, a tensor, an array or nested lists; each once.
        mesh_dim_names: names of the dims.
        backend_override: accepted; groups have the backend of the world.
    Raises:
        ValueError: ranks that are not in the world or come twice, or names that do not fit.

    >>> from dynograd.distributed.device_mesh import DeviceMesh
    >>> def program():
    ...     mesh = DeviceMesh("cpu", [[0, 1], [2, 3]], mesh_dim_names=("dp", "tp"))
    ...     return mesh.get_local_rank("dp"), dynograd.distributed.get_process_group_ranks(mesh.get_group("tp"))
    >>> dynograd.distributed.simulate(program, ranks=4)
    [(0, [0, 1]), (0, [0, 1]), (1, [2, 3]), (1, [2, 3])]
    """

    def __init__(
        self,
        device_type: str,
        mesh: Tensor | np.ndarray | Sequence[Any],
        *,
        mesh_dim_names: Sequence[str] | None = None,
        backend_override: object = None,
    ) -> None:
        if world.get() is None:
            init_process_group()
        ranks = np.asarray(mesh.numpy() if isinstance(mesh, Tensor) else mesh)
        size = group_of(None).size()
        if ranks.dtype.kind not in "iu" or ranks.ndim == 0 or not ranks.size:
            raise ValueError(f"DeviceMesh: expected mesh to be a grid of ranks such as [[0, 1], [2, 3]], got {mesh!r}.")
        if np.unique(ranks).size < ranks.size or ranks.min() < 0 or ranks.max() >= size:
            raise ValueError(
                f"DeviceMesh: mesh should have ranks from 0 to {size - 1}, each once, got {ranks.tolist()}."
            )
        groups = [_group_of_lines(ranks, dim) for dim in range(ranks.ndim)]
        self._fill(device_type, ranks, _names(mesh_dim_names, ranks.ndim), groups, None)

    def _fill(
        self,
        device_type: str,
        ranks: np.ndarray,
        names: tuple[str, ...] | None,
        groups: list[ProcessGroup | None],
        root: DeviceMesh | None,
    ) -> None:
        self.device_type, self.mesh_dim_names = device_type, names
        self._ranks, self._groups, self._root = ranks, groups, root
        self._flattened: dict[str, DeviceMesh] = {}

    @classmethod
    def _of(cls, *parts: Any) -> DeviceMesh:
        mesh = object.__new__(cls)
        mesh._fill(*parts)
        return mesh

    @classmethod
    def from_group(
        cls,
        group: ProcessGroup | Sequence[ProcessGroup],
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: Sequence[str] | None = None,
    ) -> DeviceMesh:
        """A mesh of groups that are there already.

        Args:
            group: a group, which is a mesh of one dim; or one for each dim of `mesh`, in which this process is.
            device_type: "cpu" or "cuda".
            mesh: the ranks, where there is more than one group.
            mesh_dim_names: names of the dims.
        Returns:
            A `DeviceMesh`.

        >>> from dynograd.distributed.device_mesh import DeviceMesh
        >>> def program():
        ...     return DeviceMesh.from_group(dynograd.distributed.group.WORLD, "cpu").size()
        >>> dynograd.distributed.simulate(program, ranks=2)
        [2, 2]
        """
        groups = [group] if isinstance(group, ProcessGroup) else list(group)
        if mesh is None and len(groups) != 1:
            raise ValueError(f"from_group: mesh must be given for {len(groups)} groups: the ranks of the grid.")
        ranks = np.asarray(groups[0].ranks if mesh is None else mesh.numpy() if isinstance(mesh, Tensor) else mesh)
        if ranks.ndim != len(groups):
            raise ValueError(
                f"from_group: expected a group for each of the {ranks.ndim} dims of mesh, got {len(groups)}."
            )
        return cls._of(device_type, ranks, _names(mesh_dim_names, ranks.ndim), groups, None)

    @property
    def mesh(self) -> Tensor:
        """The ranks of the processes in the world, as a tensor of whole numbers."""
        return tensor(self._ranks)

    @property
    def ndim(self) -> int:
        """How many dims it has."""
        return self._ranks.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """How many processes there are along each dim."""
        return self._ranks.shape

    def size(self, mesh_dim: int | str | None = None) -> int:
        """How many processes there are.

        Args:
            mesh_dim: along this dim, a number or a name; None: in all.
        Returns:
            A number.
        """
        return int(self._ranks.size if mesh_dim is None else self._ranks.shape[self._dim("size", mesh_dim)])

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """The processes that differ from this one along a dim alone.

        Args:
            mesh_dim: a number or a name; may be left out in a mesh of one dim.
        Returns:
            A `ProcessGroup`.
        Raises:
            RuntimeError: this process has no place in the mesh, or `mesh_dim` is left out where there are several.
        """
        group = self._groups[self._only_dim("get_group", mesh_dim)]
        if group is None:
            raise RuntimeError(f"get_group: rank {get_rank()} has no place in {self!r}.")
        return group

    def get_all_groups(self) -> list[ProcessGroup]:
        """The groups of all dims.

        Returns:
            A list.
        """
        return [self.get_group(dim) for dim in range(self.ndim)]

    def get_rank(self) -> int:
        """The rank of this process in the world.

        Returns:
            A number from 0.
        """
        return get_rank()

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """The place of this process along a dim.

        Args:
            mesh_dim: a number or a name; may be left out in a mesh of one dim.
        Returns:
            A number from 0.
        """
        return self.get_group(self._only_dim("get_local_rank", mesh_dim)).rank()

    def get_coordinate(self) -> list[int] | None:
        """The place of this process along each dim; None if it has none.

        Returns:
            A list of numbers.
        """
        places = np.argwhere(self._ranks == get_rank())
        return [int(place) for place in places[0]] if len(places) else None

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        """The mesh of this process along some of the dims: `mesh["dp"]`, `mesh["dp", "tp"]`."""
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if len(names) == 1 and names[0] in self._flattened:
            return self._flattened[names[0]]
        if self.mesh_dim_names is None:
            raise RuntimeError(f"DeviceMesh: {self!r} has no names to take {names} of it by. Give mesh_dim_names.")
        dims = [self._dim("DeviceMesh", name) for name in names]
        if sorted(set(dims)) != dims:
            raise KeyError(
                f"DeviceMesh: expected names among {self.mesh_dim_names}, each once and in that order, got {names}."
            )
        place = self.get_coordinate()
        index = tuple(slice(None) if dim in dims else (0 if place is None else place[dim]) for dim in range(self.ndim))
        groups = [self._groups[dim] for dim in dims]
        return DeviceMesh._of(self.device_type, self._ranks[index], names, groups, self._root or self)

    def flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        """All dims as one, in a mesh of one dim: `mesh["dp", "tp"].flatten("all")`; the whole mesh knows its name from then on.

        All processes of the world call it.

        Args:
            mesh_dim_name: the name; the names of the dims with "_" between them unless given.
        Returns:
            A `DeviceMesh`.

        >>> from dynograd.distributed.device_mesh import init_device_mesh
        >>> def program():
        ...     mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        ...     mesh.flatten("all")
        ...     return mesh["all"].get_local_rank()
        >>> dynograd.distributed.simulate(program, ranks=4)
        [0, 1, 2, 3]
        """
        name = mesh_dim_name or "_".join(self.mesh_dim_names or [f"dim{dim}" for dim in range(self.ndim)])
        root = self._root or self
        if name in (root.mesh_dim_names or ()) and self.mesh_dim_names != (name,):
            raise ValueError(f"flatten: {root!r} has a dim of the name {name!r} already. Give another mesh_dim_name.")
        if self.ndim == 1:
            group: ProcessGroup | None = self._groups[0]
        else:
            names = root.mesh_dim_names or ()
            dims = [names.index(dim) for dim in self.mesh_dim_names or ()] if self._root else list(range(self.ndim))
            rest = [dim for dim in range(root.ndim) if dim not in dims]
            group = _group_of_lines(root._ranks.transpose(*rest, *dims).reshape(-1, self._ranks.size), 1)
        flat = DeviceMesh._of(self.device_type, self._ranks.reshape(-1), (name,), [group], root)
        root._flattened[name] = flat
        return flat

    _flatten = flatten

    def _only_dim(self, who: str, mesh_dim: int | str | None) -> int:
        if mesh_dim is None:
            if self.ndim != 1:
                raise RuntimeError(
                    f"{who}: mesh_dim must be given where there are {self.ndim} dims: a number, or one of {self.mesh_dim_names}."
                )
            return 0
        return self._dim(who, mesh_dim)

    def _dim(self, who: str, mesh_dim: int | str) -> int:
        if isinstance(mesh_dim, str):
            if mesh_dim not in (self.mesh_dim_names or ()):
                raise KeyError(f"{who}: there is no dim {mesh_dim!r} in {self!r}.")
            return (self.mesh_dim_names or ()).index(mesh_dim)
        if not -self.ndim <= mesh_dim < self.ndim:
            raise IndexError(f"{who}: expected mesh_dim from {-self.ndim} to {self.ndim - 1}, got {mesh_dim}.")
        return mesh_dim % self.ndim

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceMesh) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.device_type, self.mesh_dim_names, self._ranks.shape, tuple(self._ranks.reshape(-1).tolist())

    def __repr__(self) -> str:
        sizes = [str(size) for size in self._ranks.shape]
        if self.mesh_dim_names is not None:
            sizes = [f"{name}={size}" for name, size in zip(self.mesh_dim_names, sizes)]
        return f"DeviceMesh(({', '.join(sizes)}), {self.device_type!r}, {self._ranks.tolist()})"


def init_device_mesh(
    device_type: str,
    mesh_shape: Sequence[int],
    *,
    mesh_dim_names: Sequence[str] | None = None,
    backend_override: object = None,
) -> DeviceMesh:
    """A mesh of all processes, in the order of their ranks.

    Args:
        device_type: "cpu" or "cuda".
        mesh_shape: how many there are along each dim; their product is the number of processes.
        mesh_dim_names: names of the dims.
        backend_override: accepted; groups have the backend of the world.
    Returns:
        A `DeviceMesh`.
    Raises:
        ValueError: the sizes do not multiply to the number of processes, or names do not fit.

    >>> from dynograd.distributed.device_mesh import init_device_mesh
    >>> def program():
    ...     mesh = init_device_mesh("cpu", (2, 3), mesh_dim_names=("dp", "tp"))
    ...     return mesh["tp"].mesh.tolist(), mesh.get_coordinate()
    >>> dynograd.distributed.simulate(program, ranks=6)[4]
    ([3, 4, 5], [1, 1])
    """
    if world.get() is None:
        init_process_group()
    size, shape = group_of(None).size(), tuple(int(count) for count in mesh_shape)
    if math.prod(shape) != size or min(shape, default=0) < 1:
        raise ValueError(
            f"init_device_mesh: mesh_shape {shape} has {math.prod(shape)} places, and there are {size} processes."
        )
    return DeviceMesh(device_type, np.arange(size).reshape(shape), mesh_dim_names=mesh_dim_names)


def _names(names: Sequence[str] | None, ndim: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    if isinstance(names, str) or len(names) != ndim or len(set(names)) < ndim:
        raise ValueError(
            f"DeviceMesh: expected mesh_dim_names to be {ndim} different names, one for each dim, got {names!r}."
        )
    return tuple(names)


def _group_of_lines(ranks: np.ndarray, dim: int) -> ProcessGroup | None:
    """The group of the line along `dim` in which this process is; groups of the other lines are made, too, as all processes have to."""
    result: ProcessGroup | None = None
    everyone = group_of(None)
    for line in np.moveaxis(ranks, dim, -1).reshape(-1, ranks.shape[dim]).tolist():
        if line == get_process_group_ranks():
            return everyone
        group = new_group(line)
        if isinstance(group, ProcessGroup):
            result = group
    return result
