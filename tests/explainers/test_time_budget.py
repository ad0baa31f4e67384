"""A budget of time ends near its time, also if the machine becomes slower or faster meanwhile.

The clock is the model's: each call moves it by what a call takes at that moment.
"""

from types import SimpleNamespace

import numpy as np
import pytest

import limelight
from limelight.errors import InputError
from limelight.sampling import deadline
from limelight.sampling.deadline import Deadline, answers_in_time, drawing_until

BATCH_SHARE = 0.05  # of the time: the largest part of it that one batch may take
SENTENCES = [" ".join(f"w{10 * i + j}" for j in range(1, 8)) + "." for i in range(5)]
LONG = " ".join(SENTENCES)
TEXT = " ".join(f"w{i}" for i in range(1, 41))
SAMPLED = {  # methods, and what else is asked of them
    "shapley": {},
    "shapley by orders": {"method": "shapley", "sampler": "orders"},
    "shapley by regression": {"method": "shapley", "sampler": "regression"},
    "banzhaf": {},
    "lime": {},
    "lime-sampled": {},
    "interactions": {},
    "context-cite": {},
    "owen": {"text": LONG},
    "zoom": {"text": LONG},
    "zoom into two": {"method": "zoom", "text": LONG, "opened": 2},
    "surrogate": {"heads": 1},
}


class Machine:
    """A model of words on a machine that takes ``later`` times as long from ``slow_from`` on."""

    def __init__(self, seconds=0.01, *, slow_from=0.0, later=1.0):
        self.now, self.calls, self.largest_batch = 0.0, 0, 0.0
        self.seconds, self.slow_from, self.later = seconds, slow_from, later

    def monotonic(self):
        return self.now

    def __call__(self, texts):
        began = self.now
        for _ in texts:
            self.now += self.seconds * (self.later if self.now >= self.slow_from else 1.0)
        self.calls, self.largest_batch = self.calls + len(texts), max(self.largest_batch, self.now - began)
        sets = [{int(word.strip(".")[1:]) for word in text.split() if word[0] == "w"} for text in texts]
        return np.array([[0.0, len(s) / 10 + ({1, 3} <= s) - ({2, 5} <= s)] for s in sets])

    @property
    def wrapped(self):
        return limelight.wrap(self, classes=["bad", "good"], scale="logit")


def run(machine, monkeypatch, name, budget, verb=limelight.explain):
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=machine.monotonic))
    wanted = dict(SAMPLED[name])
    text, method = wanted.pop("text", TEXT), wanted.pop("method", name)
    protect = ["."] if "." in text else []
    return verb(machine.wrapped, text, method, budget=budget, protect=protect, **wanted)


@pytest.mark.parametrize("later", [2.0, 8.0])
@pytest.mark.parametrize("name", SAMPLED)
def test_a_time_ends_near_its_end_on_a_machine_that_becomes_slower(name, later, monkeypatch):
    budget = 20.0
    machine = Machine(slow_from=budget / 2, later=later)
    e = run(machine, monkeypatch, name, budget)
    assert 0.6 * budget < machine.now <= budget * (1 + later * BATCH_SHARE)
    assert np.isfinite(e.scores).all()


@pytest.mark.parametrize("name", SAMPLED)
def test_on_a_steady_machine_the_time_is_used(name, monkeypatch):
    """Negative control: a method that draws the least would keep within any time."""
    machine = Machine()
    run(machine, monkeypatch, name, 20.0)
    used = 0.1 if name == "surrogate" else 0.75  # fitting takes the rest of its time
    assert used * 20.0 < machine.now <= 20.0
