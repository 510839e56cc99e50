"""The demo, killed in the middle and started again, comes to the same bits."""

from __future__ import annotations

import os

import pytest

import dynograd as dg
from dynograd.errors import CheckpointError
from examples import sentiment


class Killed(BaseException):
    """Ends the program as a kill does: what is not on the disk is lost."""


def short_run(checkpoint, **options):
    return sentiment.main(epochs=2, steps=15, sentences=160, batch_size=16, checkpoint=checkpoint, **options)


@pytest.fixture(autouse=True)
def saves_every_second_step(monkeypatch):
    monkeypatch.setattr(dg.Run, "_is_time_to_save", lambda run, epoch_is_over: run.step % 2 == 0)


def kill_at(monkeypatch, step):
    move_average = sentiment.move_average

    def move_or_die(average, model, number):
        if number == step:
            raise Killed
        move_average(average, model, number)

    monkeypatch.setattr(sentiment, "move_average", move_or_die)


def test_the_demo_continues_where_it_was_killed(tmp_path, monkeypatch, capsys):
    expected = short_run(tmp_path / "a.safetensors", workers=0)
    for step, workers in ((4, 2), (9, 0), (14, 1)):
        with monkeypatch.context() as patch, pytest.raises(Killed):
            kill_at(patch, step)
            short_run(tmp_path / "b.safetensors", workers=workers)
    assert "b-run.safetensors" in os.listdir(tmp_path)
    capsys.readouterr()
    assert short_run(tmp_path / "b.safetensors", workers=0) == expected
    assert "continuing at step 12, in epoch 2 (--fresh begins anew)" in capsys.readouterr().out
    assert not [name for name in os.listdir(tmp_path) if "-run" in name], "a finished run leaves nothing to continue"


def test_the_demo_can_be_begun_anew(tmp_path, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_at(patch, 4)
        short_run(tmp_path / "a.safetensors", workers=0)
    with pytest.raises(CheckpointError, match=r"begun with seed=0, now 1.*fresh"):
        short_run(tmp_path / "a.safetensors", workers=0, seed=1)
    short_run(tmp_path / "a.safetensors", workers=0, seed=1, fresh=True)
