"""Trees in brackets, as in the Stanford Sentiment Treebank and the Penn Treebank: `(3 (2 a) (4 (3 fine) (2 film)))`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from dynograd.data.dataset import Dataset
from dynograd.data.datasets.reading import LARGEST, Lines, bad_line

__all__ = ["Tree", "Trees"]

_PARTS = re.compile(r"[()]|[^ \t()]+")  # other white space, such as a no-break space, belongs to words


class Tree:
    """A tree as flat lists over its nodes; children come before their parent, the root is last.

    Nothing here calls itself, so a tree may be deep.

    Args:
        labels: `labels[n]` is the label of node n.
        words: `words[n]` is its word, None inside the tree.
        children: `children[n]` are the numbers of its children, a tuple.

    >>> tree = Tree.parse("(3 (2 a) (4 film))")
    >>> tree.labels, tree.words, tree.children
    (['2', '4', '3'], ['a', 'film', None], [(), (), (0, 1)])
    >>> tree.leaves(), tree.depth(), str(tree)
    (['a', 'film'], 1, '(3 (2 a) (4 film))')
    """

    __slots__ = ("children", "labels", "words")

    def __init__(self, labels: list, words: list[str | None], children: list[tuple[int, ...]]) -> None:
        self.labels, self.words, self.children = labels, words, children

    @classmethod
    def parse(cls, text: str, label: Callable[[str], Any] = str) -> Tree:
        """The one tree in a text.

        Args:
            text: brackets with a label and either a word or trees.
            label: what makes a node's label into its value.
        Returns:
            Tree.
        Raises:
            DataFileError: brackets that do not fit, or not one tree.

        >>> Tree.parse("(3 (2 a) (4 film))", label=int).labels
        [2, 4, 3]
        """
        trees = list(_parsed("the text", [(1, text)], label, 1 << 20))
        if len(trees) != 1:
            raise bad_line("the text", 1, "one tree", f"{len(trees)} trees", "Use Trees for files.")
        return trees[0]

    def __len__(self) -> int:
        """How many nodes there are."""
        return len(self.labels)

    def leaves(self) -> list[str]:
        """The words from left to right.

        Returns:
            a list of str.

        >>> Tree.parse("(3 (2 a) (4 film))").leaves()
        ['a', 'film']
        """
        return [word for word in self.words if word is not None]

    def depth(self) -> int:
        """Edges from the root to the deepest leaf.

        Returns:
            int.

        >>> Tree.parse("(3 (2 a) (4 film))").depth()
        1
        """
        depths: list[int] = []
        for children in self.children:
            depths.append(1 + max([depths[child] for child in children]) if children else 0)
        return depths[-1]

    def __str__(self) -> str:
        texts: list[str] = []
        waiting: list[Any] = [len(self) - 1]
        while waiting:
            node = waiting.pop()
            if isinstance(node, str):
                texts.append(node)
                continue
            texts.append(f"({self.labels[node]}" + ("" if self.words[node] is None else f" {self.words[node]}"))
            waiting.append(")")
            for child in reversed(self.children[node]):
                waiting += [child, " "]
        return "".join(texts)

    __repr__ = __str__

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, Tree):
            return NotImplemented
        return (self.labels, self.words, self.children) == (other.labels, other.words, other.children)

    __hash__ = None  # type: ignore[assignment]


class Trees(Dataset):
    """The trees of a file, one a line or over several lines: sample i is a `Tree`.

    Args:
        file: path, compressed by gzip or not, or an open text file.
        label: what makes a node's label into its value: `int` for the Sentiment Treebank.
        deepest: brackets that may be open at once.
        at_most: bytes that the file may have after decompression.
    Raises:
        DataFileError: brackets that do not fit, a node without label, a label that `label` refuses; names file, line, expected and got.

    >>> import io
    >>> trees = Trees(io.StringIO("(1 (0 not) (3 bad))\\n(2 film)\\n"), label=int)
    >>> len(trees), trees[0].labels, trees[1].leaves()
    (2, [0, 3, 1], ['film'])
    """

    def __init__(
        self, file: Any, label: Callable[[str], Any] = str, *, deepest: int = 10_000, at_most: int = LARGEST
    ) -> None:
        lines = Lines(file, at_most)
        self.trees = list(_parsed(file, ((lines.number, text) for text in lines), label, deepest))

    def __getitem__(self, index: Any) -> Tree:
        return self.trees[index]

    def __len__(self) -> int:
        return len(self.trees)


def _parsed(file: Any, lines: Any, label: Callable[[str], Any], deepest: int) -> Iterator[Tree]:
    """The trees of numbered lines."""
    open_nodes: list[list] = []  # [label, word or None, numbers of children]
    labels: list = []
    words: list[str | None] = []
    children: list[tuple[int, ...]] = []
    number = began = 0
    for number, text in lines:
        for match in _PARTS.finditer(text):
            part = match[0]
            place = f"in column {match.start() + 1}"
            if part == "(":
                if len(open_nodes) == deepest:
                    raise bad_line(
                        file, number, f"at most {deepest} open brackets", f"another {place}", "Pass a larger deepest."
                    )
                if open_nodes and open_nodes[-1][1] is not None:
                    raise bad_line(file, number, f"')' behind the word {open_nodes[-1][1]!r}", f"'(' {place}")
                if not open_nodes:
                    began = number
                open_nodes.append([None, None, []])
            elif part == ")":
                if not open_nodes:
                    raise bad_line(file, number, "'('", f"')' {place}")
                name, word, below = open_nodes.pop()
                if name is None and not (
                    len(below) == 1 and not open_nodes
                ):  # the Penn Treebank has brackets around the whole
                    raise bad_line(file, number, "a label behind '('", f"none, before ')' {place}")
                if name is None:
                    pass
                else:
                    if word is None and not below:
                        raise bad_line(file, number, f"a word or trees behind the label {name!r}", f"')' {place}")
                    labels.append(_label(file, number, name, label))
                    words.append(word)
                    children.append(tuple(below))
                    if open_nodes:
                        open_nodes[-1][2].append(len(labels) - 1)
                if not open_nodes:
                    yield Tree(labels, words, children)
                    labels, words, children = [], [], []
            elif not open_nodes:
                raise bad_line(file, number, "'('", f"{part!r} {place}")
            elif open_nodes[-1][0] is None and not open_nodes[-1][2]:
                open_nodes[-1][0] = part
            elif open_nodes[-1][1] is None and not open_nodes[-1][2]:
                open_nodes[-1][1] = part
            else:
                raise bad_line(file, number, "'(' or ')'", f"{part!r} {place}")
    if open_nodes:
        raise bad_line(
            file, number, f"{len(open_nodes)} more ')' for the tree that begins in line {began}", "the end of the file"
        )


def _label(file: Any, line: int, name: str, label: Callable[[str], Any]) -> Any:
    try:
        return label(name)
    except (ValueError, TypeError, KeyError) as error:
        raise bad_line(file, line, f"a label for {getattr(label, '__name__', label)}", f"{name!r} ({error})") from None
