"""How the code is built may only get better: `python -m tools.house` prints the figures, this file holds their ceilings."""

import itertools
import re
import tomllib

import pytest

from tools import house
from tools.source_imports import cycles, import_graph

# The figure of the day it was last lowered. Lower it with the change that lowers the figure.
CEILINGS = {
    "top_entries": 40,
    "top_files": 13,
    "largest_folder": 30,
    "median_lines": 123,
    "circles": 0,
    "modules_in_circles": 0,
    "slots_from_above": 3,
    "text_makers": 2,
    "code_exchanges": 1,
    "lines_of_code_in_strings": 83,
    "questions_of_ops": 0,
    "tricks": 19,
    "broad_excepts": 30,
    "lists_of_ops": 5,
    "entries_of_lists": 53,
    "constants_without_reason": 0,
    "empty_words": 0,
    "any_results": 1884,
    "ignored_types": 215,
    "files_of_an_activation": 2,
    "warm_frames": 21,
    "warm_files": 14,
    "first_frames": 641,
    "frames_to_kernel": 2,
    "without_source": 0,
}


def test_figures_only_fall():
    """All in one test, since they read the package's syntax trees, which takes longer than counting."""
    values = {figure.__name__: figure() for figure in house.FIGURES if figure.__name__ in CEILINGS}
    risen = {name: f"{value}, and was {CEILINGS[name]}" for name, value in values.items() if value > CEILINGS[name]}
    assert not risen, "see `python -m tools.house`"


def _blocks_of_text() -> list[str]:
    return re.findall(
        r"```text\n(.*?)```", (house.ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), re.DOTALL
    )


def test_the_walk_in_the_docs_is_the_walk():
    assert _blocks_of_text()[1].splitlines() == house.story(), "`python -m tools.house walk` prints it anew"


def test_the_picture_shows_every_room_at_its_height():
    contract = tomllib.loads((house.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ][0]
    floors = [re.findall(r"\((\w+)\)", layer) for layer in contract["layers"]]
    floor_of = {name: number for number, names in enumerate(floors) for name in names}
    rooms = {path.name for path in house.PACKAGE.iterdir() if (path / "__init__.py").exists()}
    heights = [
        floor_of[word]
        for line in _blocks_of_text()[0].splitlines()
        for word in re.split(r"\s{3,}", line[13:])[:-1]
        if word in rooms
    ]
    assert heights == sorted(heights)
    assert len(heights) == len(rooms)


def _places_of_page(room: str) -> list[list[str]]:
    """What the rows of the table of a room's page name, row by row."""
    text = (house.PACKAGE / room / "README.md").read_text(encoding="utf-8")
    return [re.findall(r"`([^`]+)`", row.split("|")[1]) for row in text.splitlines() if row.startswith("| `")]


@pytest.mark.parametrize("room", ["ops", "kernels", "interpreter", "ragged", "transforms/autobatch"])
def test_the_page_of_a_room_names_what_lives_there(room):
    folder = house.PACKAGE / room
    files = {path.name for path in folder.glob("*.py")} - {"__init__.py"}
    folders = {f"{path.name}/" for path in folder.iterdir() if (path / "__init__.py").exists()}
    assert sorted(itertools.chain.from_iterable(_places_of_page(room))) == sorted(files | folders)


def test_the_page_of_ragged_lists_its_floors():
    floors = {
        name.removesuffix(".py").removesuffix("/"): number
        for number, row in enumerate(_places_of_page("ragged"))
        for name in row
    }
    for module, targets in import_graph(house.PACKAGE).items():
        if module.startswith("dynograd.ragged."):
            for target in targets:
                if target.startswith("dynograd.ragged."):
                    assert floors[target.split(".")[2]] <= floors[module.split(".")[2]], (module, target)


def test_every_ceiling_is_a_figure():
    assert set(CEILINGS) <= {figure.__name__ for figure in house.FIGURES}


def test_cycles_finds_every_circle():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a", "f"}, "g": set()}
    assert cycles(graph) == [["a", "b", "c"], ["d", "e"]]


def test_cycles_follows_chains_of_any_length():
    graph = {str(i): {str(i + 1)} for i in range(5000)}
    assert cycles(graph) == []
    graph["5000"] = {"0"}
    assert len(cycles(graph)[0]) == 5001
