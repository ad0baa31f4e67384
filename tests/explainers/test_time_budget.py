"""A budget of time ends near its time, also if the machine becomes slower or faster meanwhile.

The clock is the model's: each call moves it by what a call takes at that moment.
"""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import limelight
from limelight.sampling import deadline
from limelight.sampling.all_masks import shapley_values_from_all_masks
from limelight.sampling.deadline import Deadline, evaluate_before_deadline, set_deadline
from limelight.sampling.kernel import shapley_values_from_regression

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
        self.calls, self.largest_batch = (
            self.calls + len(texts),
            max(self.largest_batch, self.now - began),
        )
        sets = [
            {int(word.strip(".")[1:]) for word in text.split() if word[0] == "w"} for text in texts
        ]
        return np.array([[0.0, len(s) / 10 + ({1, 3} <= s) - ({2, 5} <= s)] for s in sets])

    @property
    def wrapped(self):
        return limelight.wrap(self, classes=["bad", "good"], scale="logit")


def make_text(name):
    return SAMPLED[name].get("text", TEXT)


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
    assert 0.4 * budget < machine.now <= budget * (1 + later * BATCH_SHARE)
    assert np.isfinite(e.scores).all()


@pytest.mark.parametrize("name", SAMPLED)
def test_on_a_steady_machine_the_time_is_used(name, monkeypatch):
    """Negative control: a method that draws the least would keep within any time."""
    machine = Machine()
    run(machine, monkeypatch, name, 20.0)
    # Masks of few words or sentences come several times.
    used = 0.75 if make_text(name) == TEXT else 0.4
    assert used * 20.0 < machine.now <= 20.0


@pytest.mark.parametrize("name", ["shapley", "banzhaf", "lime", "context-cite"])
def test_no_batch_takes_a_large_part_of_the_time(name, monkeypatch):
    machine = Machine()
    run(machine, monkeypatch, name, 100.0)
    assert machine.largest_batch <= 1.01 * BATCH_SHARE * 100.0


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("shapley", "pairs"),
        ("banzhaf", "samples"),
        ("lime", "samples"),
        ("owen", "samples"),
        ("zoom", "samples"),
        ("context-cite", "samples"),
    ],
)
def test_settings_say_what_was_drawn_when_the_time_was_over(name, count, monkeypatch):
    steady = run(Machine(), monkeypatch, name, 20.0)
    machine = Machine(slow_from=4.0, later=8.0)
    slower = run(machine, monkeypatch, name, 20.0)
    assert slower.settings[count] < steady.settings[count]
    samples = slower.diagnostics.get(f"{count}_drawn")
    assert samples in (None, slower.settings[count])
    assert slower.settings[f"max_{count}"] == samples if f"max_{count}" in slower.settings else True


def test_all_classes_have_the_draws_of_the_first(monkeypatch):
    """The time is over after the first class, whose masks the others are told by heart."""
    for method in ("shapley", "banzhaf", "lime", "context-cite"):
        machine = Machine(slow_from=10.0, later=4.0)
        process = run(machine, monkeypatch, method, 20.0, limelight.explain_classes)
        counts = {e.settings.get("pairs", e.settings.get("samples")) for e in process.values()}
        assert len(counts) == 1
        assert counts.pop() > 10
        assert machine.now <= 20 * (1 + 4 * BATCH_SHARE)


def test_a_comparison_shares_its_time(monkeypatch):
    machine = Machine(slow_from=10.0, later=2.0)
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=machine.monotonic))
    methods = ["shapley", "lime", "banzhaf"]
    comparison = list(limelight.compare(machine.wrapped, TEXT, methods=methods, budget=20))
    assert 15 < machine.now <= 20 * (1 + 2 * BATCH_SHARE)
    samples = [
        2 * 39 * comparison[0].settings["pairs"],
        *(e.settings["samples"] for e in comparison[1:]),
    ]
    assert min(samples) > 150, "every method has a part of the time, also the last one"


def test_all_masks_are_evaluated_only_if_the_time_surely_suffices(monkeypatch):
    """2^11 masks of 10 ms take 20 s, which nothing interrupts."""
    text = " ".join(TEXT.split()[:11])
    for budget, exact in ((60.0, True), (30.0, False)):
        machine = Machine(slow_from=budget / 2, later=4.0)
        monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=machine.monotonic))
        e = limelight.explain(machine.wrapped, text, "shapley", budget=budget)
        assert (e.stderr is None) == exact
        assert machine.now <= budget * (1 + 4 * BATCH_SHARE)


def test_a_regression_that_the_clock_ends_is_as_good_as_one_of_so_many_masks():
    """It must not be one of the smallest sets, which come first; truth by all sets."""
    d, rng = 9, np.random.default_rng(0)
    strength, together = rng.normal(size=d), rng.normal(size=(d, d))

    def game(keep):
        x = keep.astype(float)
        pairs = np.einsum("ni,ij,nj->n", x, together, x)
        return (x @ strength + pairs + 3 * x[:, :3].all(1))[:, None]

    def stop_at_deadline(seed):
        now = [0.0]

        def slow(keep):
            now[0] += len(keep)
            return game(keep)

        limit = Deadline(60.0, seconds=60.0, seconds_per_mask=1.0)
        with pytest.MonkeyPatch.context() as patch, set_deadline(limit):
            patch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: now[0]))
            return shapley_values_from_regression(slow, d, np.random.default_rng(seed), pairs=100)

    def plan_values(seed):
        return shapley_values_from_regression(game, d, np.random.default_rng(seed), pairs=29)

    truth, sizes = shapley_values_from_all_masks(game, d)[0], []
    for draw in (stop_at_deadline, plan_values):
        results = [draw(seed) for seed in range(400)]
        assert {value.pairs for value in results} == {29}
        off = np.array([element.values[0] for element in results]) - truth
        np.testing.assert_allclose(off.sum(axis=1), 0, atol=1e-9)
        errors = np.array([result.stderr[0] for result in results])
        assert (np.abs(off) <= 2 * errors).mean() > 0.95
        sizes.append(np.sqrt(np.mean(off**2)))
    assert sizes[0] < 1.05 * sizes[1]


def test_rows_are_the_first_ones_and_never_fewer_than_the_least():
    now = [0.0]

    def ask(rows):
        now[0] += len(rows)
        return 2 * rows

    rows = np.arange(50)
    assert (evaluate_before_deadline(ask, rows) == 2 * rows).all(), (
        "without a deadline all are asked"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: now[0]))
        for seconds, least, answered in ((20.0, 0, 20), (20.0, 30, 30), (0.0, 0, 0)):
            now[0] = 0.0
            with set_deadline(Deadline(seconds, seconds=20.0, seconds_per_mask=1.0)):
                first = evaluate_before_deadline(ask, rows, minimum_rows=least)
                again = evaluate_before_deadline(ask, rows, minimum_rows=least)
            np.testing.assert_array_equal(first, 2 * rows[:answered])
            np.testing.assert_array_equal(again, first)


def test_loading_the_model_is_no_part_of_the_time(limelight, monkeypatch):
    """In the shell, where the model is loaded by the same command."""
    machine = Machine()
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=machine.monotonic))

    def load(*_args, **_kwargs):
        machine.now += 1000.0
        return machine.wrapped

    monkeypatch.setattr("limelight.cli.options.ModelOptions.load", load)
    output = limelight("explain", "--budget", "20s", "-m", "lime", "--format", "json", TEXT)
    assert output.code == 0, output.err
    samples = json.loads(output.out)["settings"]["samples"]
    assert 1500 < samples <= 2000
    assert machine.now <= 1020.0
