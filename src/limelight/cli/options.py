"""The options that commands share: what is asked, and of which texts and model."""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter, Token
from cyclopts.validators import Number

from limelight.cli.console import ProgressShown, chosen_format, parsed_settings
from limelight.cli.texts import Answers, TextOptions
from limelight.errors import InputError
from limelight.explainers.budget import parse_budget
from limelight.explainers.explaining import together
from limelight.files import bounded_json
from limelight.models import Model, load
from limelight.models.loading import imported
from limelight.pages.wording import notices
from limelight.question import FIELDS, AskedField
from limelight.results import Comparison, Explanation
from limelight.text import Given, one_line


def _whole_number(_: Any, tokens: Sequence[Token]) -> int:
    """Return the number that was written; cyclopts would round 1.5 without a word."""
    try:
        return int(re.sub(r"\.0*$", "", tokens[0].value))
    except ValueError:
        written = one_line(tokens[0].value, 40)
        raise ValueError(f"it must be a whole number; got {written}.") from None


# Options of several commands, which mean the same in each.
WholeNumber = Annotated[int, Parameter(converter=_whole_number)]
WholeNumberOrNone = Annotated[int | None, Parameter(converter=_whole_number)]
Seed = Annotated[WholeNumber, Parameter(validator=Number(gte=0), help="Same seed, same result.")]
Argument = Annotated[
    str,
    Parameter(
        help='The text to explain; "-" reads standard input. With a model that reads pictures, the '
        "name of a picture."
    ),
]
TableOrJson = Annotated[
    Literal["terminal", "json"],
    Parameter(help="A table for people, or JSON for programs, one object per line."),
]
DataFile = Annotated[
    Path,
    Parameter(
        name=["--data", "-d"],
        help="File of texts (.parquet, .csv, .tsv, .jsonl, the last three also .gz), or a folder "
        "of them.",
    ),
]
OutputFile = Annotated[Path, Parameter(name=["--output", "-o"])]
TextColumn = Annotated[
    str | None,
    Parameter(
        help='Column of the texts; by default one of a usual name, such as "text" or "review".'
    ),
]
LabelColumn = Annotated[
    str | None,
    Parameter(
        help='Column of the labels; by default one of a usual name, such as "label" or "class".'
    ),
]
PairColumn = Annotated[
    str | None,
    Parameter(
        help="Column of the second texts, where a text is a pair; two columns of usual names, such "
        'as "premise" and "hypothesis", are found without.'
    ),
]
AnswerColumn = Annotated[
    str | None,
    Parameter(help="With a language model: column of the answers; by default what it writes."),
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Which model is asked.

    Parameters
    ----------
    model
        Folder of the model, ours or a Hugging Face classifier, or "hub:owner/name"; the IMDB
        sentiment model that comes with the package if none is given.
    device
        Where to compute, as torch names it, such as "cuda"; by default NumPy for our own models,
        and for a Hugging Face model a GPU if there is one.
    template
        With a language model: what it is asked, with {text} in it, or a list of chat messages as
        JSON. Without labels it writes an answer, which is then explained or judged.
    labels
        The word that stands for each class there, as in negative=bad,positive=good. Where a
        command reads labelled data, and without a template: which class a label is, if labels are
        numbers or other names than the classes have, as in World,Sports (the classes in the order
        of the numbers) or neg=negative,pos=positive.
    max_new_tokens
        How many tokens an answer of a language model has at most; by default 64.
    per_token
        Take the mean log-probability of the tokens of an answer instead of their sum.
    endpoint
        Address of a server with OpenAI's completions interface, such as http://localhost:8000/v1;
        --model is then the name of a language model there, and --template what it is asked.
    key_variable
        The environment variable that holds the key for that server, if it wants one.
    """

    model: Path | None = None
    device: str | None = None
    template: str | None = None
    labels: str | None = None
    max_new_tokens: WholeNumberOrNone = None
    per_token: Annotated[bool, Parameter(negative=())] = False
    endpoint: str | None = None
    key_variable: str | None = None

    @property
    def data_labels(self) -> str | None:
        """What is said about labels of data; a template's labels name the classes themselves."""
        return self.labels if self.template is None else None

    def load(self, *, labelled: bool = False) -> Model:
        """Return the model; with a template it is a language model that is asked.

        ``labelled``: without a template, the labels are those of data.
        """
        given = {"max_new_tokens": self.max_new_tokens, "per_token": self.per_token or None}
        told: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if self.endpoint is not None:
            none = self.labels is None and self.device is None
            if self.model is None or self.template is None or not none:
                raise InputError(
                    "--endpoint goes with --model NAME and --template TEXT, and with neither "
                    "--labels nor --device."
                )
            from limelight.models.endpoint import wrap_endpoint

            told |= {"template": self.template, "key_variable": self.key_variable}
            return wrap_endpoint(self.endpoint, model=str(self.model), **told)
        if self.key_variable is not None:
            raise InputError("--key-variable is about a server; add --endpoint URL.")
        if self.template is not None:
            listed = self.template.lstrip().startswith("[")  # chat messages
            told["template"] = (
                bounded_json(self.template, "--template") if listed else self.template
            )
            told["labels"] = None if self.labels is None else _labels(self.labels)
        elif self.labels is not None and not labelled:
            raise InputError("--labels are about a language model; add --template.")
        return load(self.model, device=self.device, **told)


def _labels(written: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in written.split(","):
        name, sign, word = part.partition("=")
        if not sign or not name.strip() or not word.strip() or name.strip() in found:
            raise InputError(
                "--labels gives each class a word, as in negative=bad,positive=good; got "
                f"{written!r}."
            )
        found[name.strip()] = word.strip()
    return found


_NUMBER = re.compile("-?[0-9]{1,18}")  # longer ones are no window
_JUDGED = ("scale", "features", "grid", "window", "side")  # of a question, what a judge can be told
_SHORT = {"target": "-t"}


def _option(field: AskedField) -> tuple[str, Any, Any]:
    """Return a field of the question as an option, whose help is what the field means."""
    name = f"--{field.name.replace('_', '-')}"
    kind: Any = str if isinstance(field.default, str) else str | None
    if field.default == ():
        kind = tuple[str, ...]
    elif isinstance(field.default, bool):
        kind = bool
    names = [name, _SHORT[field.name]] if field.name in _SHORT else [name]
    turned_off = f"--no-{name[2:]}" if field.default is True else ()
    option = Parameter(name=names, negative=turned_off, help=field.means)
    return field.name, Annotated[kind, option], field.default


_CUTTER = "Units of your own: module:function, which returns the (start, end) of each in a text."
Cutter = Annotated[str | None, Parameter(name="--cutter", help=_CUTTER)]


def _fields(names: Collection[str]) -> Any:
    options = [_option(field) for field in FIELDS if field.name in names]
    return make_dataclass(
        "_Fields", [*options, ("cutter", Cutter, None)], frozen=True, kw_only=True
    )


def units_of(features: str | None, written: str | None) -> Any:
    """Return the features that were named, or the function that ``module:function`` names."""
    if written is None:
        return features
    if features is not None:
        raise InputError("give --features or --cutter, not both.")
    if ":" not in written:
        raise InputError(f"--cutter names a function as module:function; got {written!r}.")
    if not callable(found := imported(written, "cutter")):
        raise InputError(f"--cutter names a function; {written} is not one.")
    return found


@Parameter(name="*")
class QuestionOptions(_fields([field.name for field in FIELDS])):  # type: ignore[misc]
    """What is asked about a text."""

    def keywords(self) -> dict[str, Any]:
        """Return the question as the verbs of the library take it, by name."""
        asked = {one.name: getattr(self, one.name) for one in FIELDS if hasattr(self, one.name)}
        asked["features"] = units_of(self.features, self.cutter)
        numbers = [name for name in ("window", "at", "grid") if name in asked]
        return asked | {name: window_size(asked[name]) for name in numbers}


@Parameter(name="*")
class JudgedQuestion(_fields(_JUDGED)):  # type: ignore[misc]
    """The same of a judgement, whose texts have classes and answers of their own."""

    keywords = QuestionOptions.keywords


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Where the answer goes, and as what.

    Parameters
    ----------
    format
        "terminal", "json" (of several texts one object per line), "html" or "csv"; of explanations,
        comparisons and judgements also a figure as "png", "svg" or "pdf". By default what the name
        of the output file says, else "terminal".
    output
        Write to this file instead of standard output.
    """

    format: Literal["terminal", "json", "html", "csv", "png", "svg", "pdf"] | None = None
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None

    @property
    def form(self) -> str:
        """The format of the answer."""
        return chosen_format(self.format, self.output)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Asking:
    """Of which texts and model it is asked, at what cost, and where the answer goes.

    Parameters
    ----------
    budget
        How much to spend on each text: a time (30, 30s, 2min), or calls of the model ("400 calls").
        The time begins when the model is loaded. With --data, give calls. How much the methods
        sample follows from it.
    set
        Setting of the methods that have it, as name=value. May be repeated.
    """

    budget: str | None = None
    set: Annotated[tuple[str, ...], Parameter(negative=())] = ()
    texts: TextOptions = TextOptions()  # noqa: RUF009  (it is frozen)
    model: ModelOptions = ModelOptions()
    out: OutputOptions = OutputOptions()

    def asked(
        self, verb: Callable[..., Any], text: tuple[str, ...], *rest: Any, **more: Any
    ) -> Answers[Any]:
        """Return what ``verb``, explain or compare, answers for the texts that were given."""
        _check_quotes(text)
        self.texts.check()
        if self.budget is not None:
            parse_budget(self.budget)  # refuses what is no budget before the model is loaded
        model, shown = self.model.load(), ProgressShown("explaining")

        def ask(texts: list[Given]) -> Any:
            settings = parsed_settings(self.set, verb)
            with shown as progress:
                how = {"budget": self.budget, "progress": progress, **more, **settings}
                return verb(model, texts, *rest, **how)

        return self.texts.answers(text, ask, notices=_notices, together=together(model))


def explanations_in(answer: Any) -> list[Explanation]:
    """Return what a verb answers to a text: one, or one for each class, span or method."""
    if isinstance(answer, Explanation):
        return [answer]
    return list(answer.values() if isinstance(answer, dict) else answer)


def _notices(answer: Any) -> list[str]:
    own = answer.notices if isinstance(answer, Comparison) else ()
    return [*own, *notices(explanations_in(answer))]


def _check_quotes(texts: tuple[str, ...]) -> None:
    """Refuse a text that the shell has cut at its spaces: nobody explains single words in a row."""
    if len(texts) > 1 and not any(len(text.split()) > 1 for text in texts):
        raise InputError(
            f"a text with spaces needs quotes; got {len(texts)} texts of one word each. Write "
            f'"{one_line(" ".join(texts), 60)}", or give several texts one per line, with --file '
            "and --lines."
        )


def window_size(given: str | None) -> str | int | None:
    """Return a window, or a place, as the library takes it: digits are a number."""
    return int(given) if given is not None and _NUMBER.fullmatch(given) else given


def names_in(written: str | None) -> list[str] | None:
    """Return names that are written with commas between them."""
    return None if written is None else [name.strip() for name in written.split(",")]
