"""The plan of a run: what is asked, of which model and data, in which shards."""

__all__ = ["plan_run"]

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from limelight import __version__
from limelight.corpus.data_set import DataSet
from limelight.corpus.run_record import MethodRecord, ModelRecord, RunRecord, ShardPlan
from limelight.errors import InputError
from limelight.explainers.budget import Budget, BudgetGiven, agreed_budget
from limelight.explainers.method import Chosen
from limelight.explainers.question import Question
from limelight.explainers.registry import configured, default_method, several_methods
from limelight.models import Model
from limelight.models.loading import source_of
from limelight.results.values import plain_value, written_value

_SHARD = 1000  # texts, where a text costs little
_CALLS = 50_000  # of a model in a shard, so that little is lost with it
_FEWEST = 16
_USUAL_WORDS = 150  # features of a text, to guess how often a model is asked about it


def plan_run(
    model: Model,
    data: DataSet,
    method: Any,
    settings: Mapping[str, Any],
    question: Question,
    *,
    texts_kept: bool,
    budget: BudgetGiven | None,
    limit: int | None,
    shard_texts: int | None,
) -> RunRecord:
    """Return the plan; the same question always has the same one."""
    if not isinstance(question.features, str):
        raise InputError("groups of tokens are for one text; over many, name the features.")
    chosen = _chosen(model, method, settings)
    spent = _calls(agreed_budget(budget, chosen, settings))
    size = _shard_size(chosen, spent, shard_texts)
    found = data.record(texts_kept=texts_kept, limit=limit)
    source = source_of(model)
    return RunRecord(
        schema="limelight.run/1",
        version=__version__,
        model=ModelRecord(
            fingerprint=model.fingerprint,
            classes=list(model.classes),
            link=model.link,
            source=None if source is None else source.path,
        ),
        methods=[_method_record(one, spent) for one in chosen],
        question=replace(question.to(model), protect=sorted(question.protect)),
        data=found,
        shards=ShardPlan(texts=size, count=-(-found.rows // size)),
        budget=None if spent is None else str(spent),
    )


def _chosen(model: Model, method: Any, settings: Mapping[str, Any]) -> list[Chosen]:
    if isinstance(method, Sequence) and not isinstance(method, str):
        return several_methods(model, method, settings)
    named = default_method(model) if method is None else method
    return [configured(named, model, settings)]


def _calls(budget: Budget | None) -> Budget | None:
    """Return a budget of calls; one of time would make other rows on another machine."""
    if budget is not None and budget.calls is None:
        raise InputError(
            "a run must come out the same on every machine, which a budget of time does not grant; "
            f'give calls of the model, such as "400 calls"; got "{budget}".'
        )
    return budget


def _method_record(one: Chosen, budget: Budget | None) -> MethodRecord:
    """Return the method with its settings, less those that follow from a budget text by text."""
    counted = one.way.counted
    left_out = () if budget is None or counted is None else counted.counts
    settings = {name: value for name, value in one.asked().items() if name not in left_out}
    asked = written_value(plain_value(settings, "settings"))
    return MethodRecord(
        id=one.method.id, label=one.method.label, signed=one.method.signed, settings=asked
    )


def _shard_size(chosen: Sequence[Chosen], budget: Budget | None, given: int | None) -> int:
    """Return how many texts make a shard: fewer where each costs many calls of the model."""
    if given is not None:
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            raise InputError(f"shard_texts must be a whole number from 1; got {given!r}.")
        return given
    asks = [(one.way.calls, one.settings) for one in chosen if one.way.calls is not None]
    calls = sum(count(settings, _USUAL_WORDS) for count, settings in asks)
    if budget is not None:
        calls = min(calls, budget.calls or 0)
    return _SHARD if not calls else min(max(_CALLS // calls, _FEWEST), _SHARD)
