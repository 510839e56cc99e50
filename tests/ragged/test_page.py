"""docs/ragged.md says what the rules say, and every probe beside torch.nested works here."""

from benchmarks import ragged_probes
from tools import make_ragged


def test_the_page_is_up_to_date():
    assert make_ragged.page() == make_ragged.PAGE.read_text(encoding="utf-8"), "run `python -m tools.make_ragged`"


def test_every_op_has_a_line():
    text = make_ragged.page()
    assert not [key for key in make_ragged.registry if f"`{key.removesuffix('.public')}`" not in text]


def test_every_probe_works():
    failed = {text: why for text, why in ragged_probes.tried(make_ragged.dynograd).items() if why is not None}
    assert not failed
    theirs = ragged_probes.outcomes()
    assert set(theirs) == set(ragged_probes.PROBES) and sum(why is not None for why in theirs.values()) > 30
