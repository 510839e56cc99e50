"""Recorded programs give the same bits whatever ran before them, and whatever runs beside them."""

import random
import threading

from dynograd.transforms.autobatch.record import new_calls
from dynograd.transforms.autobatch.record.forms import FORMS
from dynograd.transforms.autobatch.record.interned import Interned
from dynograd.transforms.autobatch.record.pending import KINDS
from tests.transforms.autobatch import test_autobatch_programs as programs
from tests.transforms.autobatch.recorded_programs import result_of


def test_programs_in_another_order(request):
    """Few of them where the slow tests are left out."""
    count, orders = (100, 1) if "not slow" in request.config.option.markexpr else (600, 2)
    alone = {seed: result_of(seed) for seed in range(count)}
    for order in range(orders):
        seeds = list(range(count))
        random.Random(order).shuffle(seeds)
        assert [seed for seed in seeds if result_of(seed) != alone[seed]] == []


def test_programs_beside_others(monkeypatch):
    """In four threads at once; without draws, since the random stream is the process's."""
    for name in programs.RANDOM:
        monkeypatch.delitem(programs.STEPS, name)
    alone = {seed: result_of(seed) for seed in range(130, 190)}
    differing = []

    def run(number):
        seeds = list(alone)
        random.Random(number).shuffle(seeds)
        differing.extend([seed for seed in seeds if result_of(seed) != alone[seed]])

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert differing == []


def test_programs_while_forms_are_forgotten(monkeypatch):
    """Tables of few entries forget a form while calls of it wait; those that come later still join them."""
    alone = {seed: result_of(seed) for seed in range(60)}
    monkeypatch.setattr(KINDS, "_most", 3)
    monkeypatch.setattr(FORMS, "_most", 3)
    monkeypatch.setattr(new_calls, "_MOST_FORMS", 3)
    assert [seed for seed in alone if result_of(seed) != alone[seed]] == []


class Named:
    pass


def test_what_is_in_use_stays_one_object():
    interned = Interned(1)
    first = interned.of("a", Named)
    for key in "bcd":
        interned.of(key, Named)
    assert "a" not in interned.recent
    assert interned.of("a", Named) is first


def test_what_nobody_uses_is_forgotten():
    interned = Interned(1)
    created = [id(interned.of(key, Named)) for key in "abcd"]
    assert len(created) == 4
    assert len(interned._in_use) <= 2
