"""Judgements as JSON, one versioned schema read strictly, and as rows."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Literal, NamedTuple

import msgspec

from limelight.errors import InputError
from limelight.results.judgement import (
    Interval,
    JudgedMethod,
    JudgedPair,
    JudgedText,
    Judgement,
    MethodAgreement,
    Plausibility,
    Values,
)
from limelight.results.table import Table, plain_rows
from limelight.results.values import each_value, read_value, written_value


class JudgedColumn(NamedTuple):
    """One measure: what it ``means``, in which direction it is ``better``, and its ``flaw``.

    ``short`` is for the heading of a narrow column.
    """

    label: str
    short: str
    means: str
    better: Literal["larger", "smaller"] = "larger"
    flaw: str = ""


_DELETES = "Words are deleted, or replaced where the model cannot do without them"
_PROBABILITY = "It has neither chance nor ceiling, and probabilities near 0 and 1 hide most changes"
COLUMNS: Mapping[str, JudgedColumn] = {
    "additivity": JudgedColumn(
        "additivity",
        "additivity",
        "Correlation between the sum of the scores of some words and what removing them together "
        "takes away, over random sets of words. It asks for the sizes of the scores, not only for "
        "their order.",
    ),
    "lds": JudgedColumn(
        "LDS",
        "LDS",
        "Linear datamodelling score, as ContextCite reports it: Spearman's rank correlation "
        "between the sum of the scores of the words that are kept and the explained number, where "
        "every word is kept or not with probability ½.",
        flaw="With half of the words gone, no text is like the whole one that was explained.",
    ),
    **{
        f"top_{k}_drop": JudgedColumn(
            f"drop without top {k}",
            f"top {k} drop",
            "By how much the explained number, of an answer its log-probability, falls without "
            f"the {f'{k} strongest words' if k > 1 else 'strongest word'}.",
            flaw="It has neither chance nor ceiling: how far it can fall differs from text to "
            "text.",
        )
        for k in (1, 3, 5)
    },
    "loo_tau": JudgedColumn(
        "τ with leave-one-out",
        "loo tau",
        "Kendall's rank correlation (τ-b) with what removing each word alone takes away.",
        flaw="It calls the method best that is nearest to leave-one-out, which need not be "
        "faithful itself.",
    ),
    "stability": JudgedColumn(
        "stability",
        "stability",
        "Spearman's rank correlation with the same method under another seed, for methods that "
        "sample.",
    ),
    "sanity": JudgedColumn(
        "same with shuffled weights",
        "sanity",
        "Spearman's rank correlation of the sizes of the scores with those for a model whose "
        "weights are shuffled. Near 0: the explanation depends on what the model has learned; "
        "near 1: it would be the same had the model learned nothing.",
        better="smaller",
    ),
    "eraser_comprehensiveness": JudgedColumn(
        "ERASER comprehensiveness",
        "ERASER c",
        "As ERASER computes it: the probability lost without the top 1, 5, 10, 20 and 50 % of the "
        f"words, averaged. {_DELETES}.",
        flaw=f"{_PROBABILITY}; in short texts the first bins are the same one word.",
    ),
    "eraser_sufficiency": JudgedColumn(
        "ERASER sufficiency",
        "ERASER s",
        "As ERASER computes it: the probability lost when only the top 1, 5, 10, 20 and 50 % of "
        "the words are left, averaged.",
        better="smaller",
        flaw=f"{_PROBABILITY}; texts of so few words are like none the model has seen.",
    ),
    "ferret_comprehensiveness": JudgedColumn(
        "ferret aopc_compr",
        "ferret c",
        "As ferret computes it by default: the probability lost without the positively scored "
        "among the top 10, 20, … 100 % of the words, averaged over those of the ten steps that "
        "remove something new.",
        flaw="Each method is averaged over thresholds of its own: one that calls few words "
        "positive is judged by small removals only, which can turn the order of two methods "
        "around.",
    ),
    "ferret_sufficiency": JudgedColumn(
        "ferret aopc_suff",
        "ferret s",
        "As ferret computes it by default: the probability lost when only the positively scored "
        "among the top 10, 20, … 100 % of the words are left, averaged over those of the ten "
        "steps that keep something new.",
        better="smaller",
        flaw="Each method is averaged over thresholds of its own, as in ferret's "
        "comprehensiveness.",
    ),
}


def described_column(name: str) -> JudgedColumn:
    """Return what the column ``name`` is; one that a newer version wrote has its name alone."""
    return COLUMNS.get(name) or JudgedColumn(name, name, "")


def _refused(why: str) -> InputError:
    return InputError(f"this is not a limelight judgement: {why}.")


class JudgementRecord(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What ``Judgement.to_json`` writes."""

    schema: Literal["limelight.judgement/1"]
    texts: tuple[JudgedText, ...]
    methods: tuple[JudgedMethod, ...]
    pairs: tuple[JudgedPair, ...]
    greedy: float | None
    greedy_interval: Interval | None
    verdict: str
    notices: tuple[str, ...]
    settings: dict[str, Any]
    model: str
    version: str
    second: "JudgementRecord | None" = None
    agreement: MethodAgreement | None = None
    plausibility: Plausibility | None = None

    @classmethod
    def of(cls, judgement: Judgement) -> "JudgementRecord":
        """Return the record of a judgement."""
        own = {name: getattr(judgement, name) for name in cls.__struct_fields__ if name != "schema"}
        own["settings"] = each_value(written_value, judgement.settings)
        own["second"] = None if judgement.second is None else cls.of(judgement.second)
        # The schema is the first key, which omit_defaults keeps: it has no default.
        return cls(schema="limelight.judgement/1", **own)

    def value(self) -> Judgement:
        """Return the judgement of this record, all parts of the same methods and texts."""
        names = [one.method for one in self.methods]
        own = msgspec.structs.asdict(self)
        del own["schema"]
        own["settings"] = each_value(read_value, self.settings)
        own["second"] = None if self.second is None else self.second.value()
        if len(set(names)) < len(names):
            raise _refused("it names a method twice")
        for what, part in (("second", own["second"]), ("plausibility", self.plausibility)):
            if part is not None and (
                [one.method for one in part.methods] != names or len(part.texts) != len(self.texts)
            ):
                raise _refused(f"its {what!r} must have the same methods and texts")
        for text in self.texts:
            for curve in text.curves.values():
                if curve.words.max(initial=-1) >= len(text.words):
                    raise _refused("a curve removes words that its text does not have")
        for marked in () if self.plausibility is None else self.plausibility.texts:
            values = (getattr(marked, one.name) for one in fields(marked))
            if any(len(v.methods) != len(names) for v in values if isinstance(v, Values)):
                raise _refused(f"marked words must be held against all {len(names)} methods")
        return Judgement(**own)


def judgement_table(judgement: Judgement) -> Table:
    """Return one row per text and method."""
    rows = []
    for number, text in enumerate(judgement.texts):
        for i, one in enumerate(judgement.methods):
            name, judged = one.method, text.deletion is not None
            row = {
                "text": text.id,
                "method": name,
                "d": text.d,
                "target": text.target,
                "full": text.full if judged else None,
                "chance": text.chance,
                "ceiling": text.ceiling,
                "ceiling_kind": text.ceiling_kind,
                "greedy": text.greedy,
                "area": (text.areas or {}).get(name),
                "insertion": text.insertion and text.insertion.areas.get(name),
                "change": text.change and text.change.areas.get(name),
                **dict.fromkeys(COLUMNS),
                **{k: own.values.get(name) for k, own in text.columns.items() if k in COLUMNS},
                "reason": text.reason or text.reasons.get(name),
            }
            if judgement.plausibility is not None:
                marked = judgement.plausibility.texts[number]
                precision, r_precision = marked.precision, marked.r_precision
                row |= {
                    "average_precision": precision.methods[i] if precision else None,
                    "average_precision_chance": precision.chance if precision else None,
                    "r_precision": r_precision.methods[i] if r_precision else None,
                    "r_precision_chance": r_precision.chance if r_precision else None,
                    "token_f1": marked.token_f1.methods[i] if marked.token_f1 else None,
                    "rationale_reason": marked.reason,
                }
            rows.append(row)
    return plain_rows(rows[0], [list(row.values()) for row in rows])
