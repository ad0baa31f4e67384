"""Experiments that measure nothing much, to see what the runner and the report do with them."""

from limelight_reproduction.drawing import canvas
from limelight_reproduction.experiment import Experiment, Findings, Part, Table, Verdict
from limelight_reproduction.results import PartResult

CARRIED = PartResult(
    numbers={"value": 100, "seed": 0},
    quick=False,
    seed=0,
    seconds=1.0,
    limelight="0.0.0",
    commit="unknown",
    made_by="M",
)


class Counted:
    """A measurement that remembers how often it was asked, and can be made to fail."""

    def __init__(self, value, *, fails=None, ticks=(), asks=None):
        self.value, self.fails, self.ticks, self.asks = value, fails, ticks, asks
        self.seeds = []

    def __call__(self, setting):
        self.seeds.append(setting.seed)
        if self.asks is not None:
            self.asks(setting)
        for tick in self.ticks:
            setting.tick(*tick)
        if self.fails is not None:
            raise self.fails
        return {"value": self.value, "seed": setting.seed}


def experiment(
    name, parts, *, needs=None, reads=(), stages=1, said="{} measured", cell="a word", decided=()
):
    """Return an experiment of the parts (name: measurement); ``needs`` by name of the part.

    Its verdict is of the parts ``decided``.
    """

    def draw_figures(numbers):
        figure, axes = canvas(2.0, 2.0)
        axes.plot([of["value"] for of in numbers.values()])
        yield f"{name}-drawing", f"The values of {name}.", figure

    return Experiment(
        name=name,
        title=f"About {name}",
        paper=f"What the paper says about {name}.",
        parts=tuple(
            Part(
                name=part,
                measure=measure,
                needs=(needs or {}).get(part, ()),
                reads=reads,
                stages=stages,
            )
            for part, measure in parts.items()
        ),
        findings=lambda numbers: Findings(
            headline=f"{name} found something.",
            verdicts=[
                Verdict(claim=f"{name} is true", holds="it is", number="1 of 1", parts=decided)
            ],
            measured=[said.format(sum(of["value"] for of in numbers.values()))],
            meaning=f"What {name} means.",
            table=Table(
                columns=("part", "value", "word"),
                rows=[[part, of["value"], cell] for part, of in numbers.items()],
            ),
        ),
        figures=draw_figures,
    )


def stored(one):
    """Return numbers as the package would carry them."""
    return PartResult(**one.to_dict() | {"stored": True})
