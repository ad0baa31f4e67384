"""The options that commands share: what is asked, and of which texts and model."""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter, Token
from cyclopts.validators import Number

from limelight.cli.console import chosen_format, parsed_settings, show_progress
from limelight.cli.groups import BUDGET, FEATURES, INPUT, METHOD, MODEL, OUTPUT, TARGET
from limelight.cli.texts import Answers, TextOptions
from limelight.errors import InputError
from limelight.explainers.budget import parse_budget
from limelight.explainers.explaining import texts_per_batch
from limelight.files import parse_json
from limelight.models import Model, load
from limelight.models.loading import import_object
from limelight.rendering.wording import merge_warnings
from limelight.request import FIELDS, RequestField
from limelight.results import Comparison, Explanation
from limelight.text import UserInput, truncate_line


def _whole_number(_: Any, tokens: Sequence[Token]) -> int:
    """Return the number that was written; cyclopts would round 1.5 without a word."""
    try:
        return int(re.sub(r"\.0*$", "", tokens[0].value))
    except ValueError:
        written = truncate_line(tokens[0].value, 40)
        raise ValueError(f"it must be a whole number; got {written}.") from None


_FILE_FORMATS = ".parquet, .csv, .tsv or .jsonl; the last three may end in .gz"

# Options of several commands, which mean the same in each.
WholeNumber = Annotated[int, Parameter(converter=_whole_number)]
WholeNumberOrNone = Annotated[int | None, Parameter(converter=_whole_number)]
Seed = Annotated[
    WholeNumber,
    Parameter(
        group=BUDGET,
        validator=Number(gte=0),
        help="Seed of the random numbers. The same seed gives the same result.",
    ),
]
Argument = Annotated[
    str,
    Parameter(
        group=INPUT,
        help='The text; "-" reads standard input. For a model that reads images, the name of an '
        "image file.",
    ),
]
Format = Annotated[
    Literal["terminal", "json"],
    Parameter(
        group=OUTPUT, help='"terminal": a table; "json": one JSON object per line, for programs.'
    ),
]
DATA_HELP = f"File of texts ({_FILE_FORMATS}), or a folder of such files."
LABELED_DATA_HELP = f"File of texts and labels ({_FILE_FORMATS}), or a folder of such files."
DataFile = Annotated[Path, Parameter(name=["--data", "-d"], group=INPUT, help=DATA_HELP)]
LabeledDataFile = Annotated[
    Path, Parameter(name=["--data", "-d"], group=INPUT, help=LABELED_DATA_HELP)
]
OutputFile = Annotated[Path, Parameter(name=["--output", "-o"], group=OUTPUT)]
TextColumn = Annotated[
    str | None,
    Parameter(
        group=INPUT,
        help='Column of the texts. Default: a column with a common name, such as "text" or '
        '"review".',
    ),
]
LabelColumn = Annotated[
    str | None,
    Parameter(
        group=INPUT,
        help='Column of the labels. Default: a column with a common name, such as "label" or '
        '"class".',
    ),
]
PairColumn = Annotated[
    str | None,
    Parameter(
        group=INPUT,
        help="Column of the second texts, for models that read pairs of texts. Default: common "
        'pairs of names, such as "premise" and "hypothesis", are found.',
    ),
]
AnswerColumn = Annotated[
    str | None,
    Parameter(
        group=INPUT,
        help="Language models: column of the answers. Default: the answer that the model writes.",
    ),
]
Method = Annotated[str | None, Parameter(name=["--method", "-m"], group=METHOD)]
Methods = Annotated[str | None, Parameter(name=["--methods", "-m"], group=METHOD)]
MethodSettings = Annotated[
    tuple[str, ...],
    Parameter(
        group=METHOD,
        help='Setting of a method as name=value; "limelight methods" lists them. Repeat for more '
        "settings.",
    ),
]


@Parameter(name="*", group=MODEL)
@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Select the model.

    Parameters
    ----------
    model
        Folder of the model, or "hub:owner/name" for a model of the Hugging Face hub. Default: the
        IMDB sentiment model of this package.
    device
        Device to compute on, such as "cpu" or "cuda". Default: a GPU for a Hugging Face model if
        there is one, otherwise the CPU.
    template
        Language models: the prompt, with {text} in place of the text, or a JSON list of chat
        messages. Without --labels, the model answers in its own words.
    labels
        With --template: the word that the model writes for each class, as in
        negative=bad,positive=good. For labeled data: the class of each label, as in
        neg=negative,pos=positive, or the classes in the order of the label numbers, as in
        World,Sports.
    max_new_tokens
        Language models: the maximum number of tokens in an answer. Default: 64.
    per_token
        Language models: explain the mean log-probability of the tokens of an answer, not their sum.
    endpoint
        Address of a server with OpenAI's completions interface, such as http://localhost:8000/v1.
        Give the name of the model with --model, and the prompt with --template.
    key_variable
        Name of the environment variable that contains the key for the server.
    """

    model: Path | None = None
    device: str | None = None
    template: str | None = None
    labels: str | None = None
    max_new_tokens: WholeNumberOrNone = None
    per_token: bool = False
    endpoint: str | None = None
    key_variable: str | None = None

    @property
    def data_labels(self) -> str | None:
        """What is said about labels of data; a template's labels name the classes themselves."""
        return self.labels if self.template is None else None

    def load(self, *, labeled: bool = False) -> Model:
        """Return the model; with a template it is a language model that is asked.

        ``labeled``: without a template, the labels are those of data.
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
            told["template"] = parse_json(self.template, "--template") if listed else self.template
            told["labels"] = None if self.labels is None else _labels(self.labels)
        elif self.labels is not None and not labeled:
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
_TARGET_FIELDS = ("target", "against", "scale", "at", "answer")
_SPLITTER_HELP = (
    " module:function names a function of yours that returns the (start, end) of each part."
)

# The options that each value of --each excludes.
_EXCLUDED = {
    "class": ("target", "against"),
    "span": ("at", "answer"),
    "sentence": ("at", "target", "against", "scale"),
}


def _option(field: RequestField) -> tuple[str, Any, Any]:
    """Return a field of the question as an option, whose help is what the field means."""
    name = f"--{field.name.replace('_', '-')}"
    kind: Any = str if isinstance(field.default, str) else str | None
    if field.default == ():
        kind = tuple[str, ...]
    elif isinstance(field.default, bool):
        kind = bool
    names = [name, _SHORT[field.name]] if field.name in _SHORT else [name]
    turned_off = f"--no-{name[2:]}" if field.default is True else ()
    group = TARGET if field.name in _TARGET_FIELDS else FEATURES
    text = field.means + _SPLITTER_HELP if field.name == "features" else field.means
    option = Parameter(name=names, negative=turned_off, group=group, help=text)
    return field.name, Annotated[kind, option], field.default


def _fields(names: Collection[str]) -> Any:
    options = [_option(field) for field in FIELDS if field.name in names]
    return make_dataclass("_Fields", options, frozen=True, kw_only=True)


def parse_features(features: str | None) -> Any:
    """Return the name of the features, or the splitter that "module:function" names."""
    if features is None or ":" not in features:
        return features
    if not callable(splitter := import_object(features, "splitter")):
        raise InputError(f"--features module:function needs a function; {features} is not one.")
    return splitter


@Parameter(name="*")
class QuestionOptions(_fields([field.name for field in FIELDS])):  # type: ignore[misc]
    """Select what is explained."""

    def keywords(self, each: str | None = None) -> dict[str, Any]:
        """Return the options as keywords of the Python functions, without those ``each`` excludes.

        Raises InputError if an option is given that has no meaning together with ``each``.
        """
        options = {
            field.name: getattr(self, field.name) for field in FIELDS if hasattr(self, field.name)
        }
        defaults = {field.name: field.default for field in FIELDS}
        for name in _EXCLUDED.get(each or "", ()):
            if options.pop(name) != defaults[name]:
                raise InputError(f"give --{name} or --each {each}, not both.")
        options["features"] = parse_features(self.features)
        numbers = [name for name in ("window", "at", "grid") if name in options]
        return options | {name: window_size(options[name]) for name in numbers}


@Parameter(name="*")
class JudgedQuestion(_fields(_JUDGED)):  # type: ignore[misc]
    """Select what is explained in a judgment, whose texts have classes and answers already."""

    keywords = QuestionOptions.keywords


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Select the format and the file of the result.

    Parameters
    ----------
    format
        Format of the result: "terminal", "json" (one object per line), "html", "csv", or a figure
        as "png", "svg" or "pdf". Default: the ending of the output file, otherwise "terminal".
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
        Limit per text: a time (30, 30s, 2min) or a number of model calls ("400 calls"). Methods
        that sample choose their sample size to fit. The time to load the model does not count.
    """

    budget: Annotated[str | None, Parameter(group=BUDGET)] = None
    set: MethodSettings = ()
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
        model, display = self.model.load(), show_progress("explaining")

        def ask(texts: list[UserInput]) -> Any:
            settings = parsed_settings(self.set, verb)
            with display:
                how = {"budget": self.budget, "progress": display, **more, **settings}
                return verb(model, texts, *rest, **how)

        return self.texts.answers(text, ask, warnings=_warnings, together=texts_per_batch(model))


def explanations_in(answer: Any) -> list[Explanation]:
    """Return what a verb answers to a text: one, or one for each class, span or method."""
    if isinstance(answer, Explanation):
        return [answer]
    return list(answer.values() if isinstance(answer, dict) else answer)


def _warnings(answer: Any) -> list[str]:
    own = answer.warnings if isinstance(answer, Comparison) else ()
    return [*own, *merge_warnings(explanations_in(answer))]


def _check_quotes(texts: tuple[str, ...]) -> None:
    """Refuse a text that the shell has cut at its spaces: nobody explains single words in a row."""
    if len(texts) > 1 and not any(len(text.split()) > 1 for text in texts):
        raise InputError(
            f"a text with spaces needs quotes; got {len(texts)} texts of one word each. Write "
            f'"{truncate_line(" ".join(texts), 60)}", or give several texts one per line, with --file '
            "and --lines."
        )


def window_size(given: str | None) -> str | int | None:
    """Return a window, or a place, as the library takes it: digits are a number."""
    return int(given) if given is not None and _NUMBER.fullmatch(given) else given


def names_in(written: str | None) -> list[str] | None:
    """Return names that are written with commas between them."""
    return None if written is None else [name.strip() for name in written.split(",")]
