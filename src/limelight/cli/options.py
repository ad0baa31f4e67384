"""Options that several commands share: texts, model, target, budget and output."""

import re
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from cyclopts import Parameter, Token

from limelight.cli.console import parse_settings, print_stderr, select_format, show_progress
from limelight.cli.groups import BUDGET, FEATURES, INPUT, METHOD, MODEL, OUTPUT, TARGET
from limelight.cli.texts import TextOptions, TextResults
from limelight.errors import InputError
from limelight.explainers.budget import parse_budget
from limelight.explainers.explaining import texts_per_batch
from limelight.files import parse_json
from limelight.models import Model, load
from limelight.models.loading import import_object
from limelight.rendering.wording import merge_warnings
from limelight.request import REQUEST_FIELDS, RequestField
from limelight.results import Comparison, Explanation
from limelight.text import UserInput, truncate_line


def _whole_number(_: Any, tokens: Sequence[Token]) -> int:
    """Parse a whole number; cyclopts would round 1.5 without an error."""
    try:
        return int(re.sub(r"\.0*$", "", tokens[0].value))
    except ValueError:
        text = truncate_line(tokens[0].value, 40)
        raise ValueError(f"it must be a whole number, not {text}.") from None


def _check_not_negative(_: Any, number: int) -> None:
    """Raise an error for a number below 0."""
    # The validators of cyclopts are dozens of functions, which take a hundredth of a short command.
    if number < 0:
        raise ValueError("Must be >= 0.")


_FILE_FORMATS = ".parquet, .csv, .tsv, .jsonl, or the last three with .gz"

# Options with the same meaning in several commands.
WholeNumber = Annotated[int, Parameter(converter=_whole_number)]
WholeNumberOrNone = Annotated[int | None, Parameter(converter=_whole_number)]
Seed = Annotated[
    WholeNumber,
    Parameter(
        group=BUDGET,
        validator=_check_not_negative,
        help="Seed of the random numbers. The same seed gives the same result.",
    ),
]
Argument = Annotated[
    str,
    Parameter(
        group=INPUT,
        help='The text, or "-" for standard input. For a model that reads images, the name '
        "of an image file.",
    ),
]
Format = Annotated[
    Literal["terminal", "json"],
    Parameter(group=OUTPUT, help='"terminal" for a table, or "json" for one JSON object per line.'),
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
DocumentsColumn = Annotated[
    str | None,
    Parameter(
        group=INPUT,
        help="Language models: column of the documents of each question, which is the text. Cells "
        "are lists, or lists as JSON.",
    ),
]
MessagesColumn = Annotated[
    str | None,
    Parameter(
        group=INPUT,
        help="Language models: column of chats instead of texts. Cells are lists of messages, or "
        "lists as JSON.",
    ),
]
Method = Annotated[str | None, Parameter(name=["--method", "-m"], group=METHOD)]
Methods = Annotated[str | None, Parameter(name=["--methods", "-m"], group=METHOD)]
MethodSettings = Annotated[
    tuple[str, ...],
    Parameter(
        group=METHOD,
        help='Setting of a method as name=value, such as seed=1. "limelight methods" lists the '
        "settings. Repeat for more settings.",
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
    background
        File of texts whose random words replace removed words if you set replacement=refill. For
        an AttentionClassifier.
    template
        Language models: the prompt, with {text} in place of the text, or a JSON list of chat
        messages. Without --labels, the model answers in its own words. For --documents, the prompt
        with {documents} and {question}. Default: the chat template of the model.
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
        Give the name of the model with --model, and the prompt with --template or --tokenizer.
    tokenizer
        With --endpoint: local folder with the tokenizer of the model. Its chat template writes
        messages, documents and texts as a prompt.
    key_variable
        Name of the environment variable that contains the key for the server.
    """

    model: Path | None = None
    device: str | None = None
    background: Path | None = None
    template: str | None = None
    labels: str | None = None
    max_new_tokens: WholeNumberOrNone = None
    per_token: bool = False
    endpoint: str | None = None
    tokenizer: str | None = None
    key_variable: str | None = None

    @property
    def data_labels(self) -> str | None:
        """The value of --labels if it maps labels. With --template it defines the classes."""
        return self.labels if self.template is None else None

    def load(self, *, labeled: bool = False) -> Model:
        """Load the model; with --template, it is a language model.

        Parameters
        ----------
        labeled
            Whether the command reads labeled data. Then --labels without --template is about the
            labels of the data.
        """
        options = {"max_new_tokens": self.max_new_tokens, "per_token": self.per_token or None}
        keywords: dict[str, Any] = {
            name: value for name, value in options.items() if value is not None
        }
        if self.endpoint is not None:
            return self._wrap_endpoint(keywords)
        for option, value in (
            ("--key-variable", self.key_variable),
            ("--tokenizer", self.tokenizer),
        ):
            if value is not None:
                raise InputError(f"{option} needs a server. Add --endpoint URL.")
        if self.template is not None:
            labels = None if self.labels is None else _parse_class_words(self.labels)
            keywords |= {"template": self._parse_template(), "labels": labels}
        elif self.labels is not None and not labeled:
            raise InputError("--labels needs a language model. Add --template TEXT.")
        if self.background is not None:
            from limelight.data import read_rows

            keywords["background"] = read_rows(self.background).texts
        if self.model is not None and sys.stderr is not None and sys.stderr.isatty():
            print_stderr("Loading the model.")  # imports alone may take seconds
        return load(self.model, device=self.device, **keywords)

    def _wrap_endpoint(self, keywords: dict[str, Any]) -> Model:
        """Return the model behind a server."""
        local_options = (self.labels, self.device, self.background)
        is_local_option = any(option is not None for option in local_options)
        has_prompt = self.template is not None or self.tokenizer is not None
        if self.model is None or not has_prompt or is_local_option:
            raise InputError(
                "--endpoint needs --model NAME and --template TEXT or --tokenizer FOLDER. Leave "
                "--labels, --device and --background out."
            )
        from limelight.models.endpoint import wrap_endpoint

        if self.template is not None:
            keywords["template"] = self._parse_template()
        return wrap_endpoint(
            cast(str, self.endpoint),
            model=str(self.model),
            tokenizer=self.tokenizer,
            key_variable=self.key_variable,
            **keywords,
        )

    def _parse_template(self) -> Any:
        """Return the value of --template, which may be a JSON list of chat messages."""
        template = cast(str, self.template)
        is_chat = template.lstrip().startswith("[")
        return parse_json(template, "--template") if is_chat else template


def _parse_class_words(option: str) -> dict[str, str]:
    """Parse "negative=bad,positive=good": the word that a language model writes for each class."""
    labels: dict[str, str] = {}
    for pair in option.split(","):
        name, sign, word = (text.strip() for text in pair.partition("="))
        if not sign or not name or not word or name in labels:
            raise InputError(
                "--labels must give each class a word, as in negative=bad,positive=good, not "
                f"{option!r}."
            )
        labels[name] = word
    return labels


_NUMBER = re.compile("-?[0-9]{1,18}")  # a window has at most 18 digits
_SHORT_NAMES = {"target": "-t"}
_TARGET_FIELDS = ("target", "against", "scale", "at", "answer")
_SPLITTER_HELP = (
    " For your own splitter, give a function as module:function. It returns the (start, end) of "
    "each feature."
)

# The options that each value of --each excludes.
_EXCLUDED = {
    "class": ("target", "against"),
    "span": ("at", "answer"),
    "sentence": ("at", "target", "against", "scale"),
}


def _make_option(field: RequestField) -> tuple[str, Any, Any]:
    """Return the name, the annotated type and the default of the option for a request field."""
    name = f"--{field.name.replace('_', '-')}"
    kind: Any = str if isinstance(field.default, str) else str | None
    if field.default == ():
        kind = tuple[str, ...]
    elif isinstance(field.default, bool):
        kind = bool
    names = [name, _SHORT_NAMES[field.name]] if field.name in _SHORT_NAMES else [name]
    negative_name = f"--no-{name[2:]}" if field.default is True else ()
    group = TARGET if field.name in _TARGET_FIELDS else FEATURES
    text = field.help + _SPLITTER_HELP if field.name == "features" else field.help
    option = Parameter(name=names, negative=negative_name, group=group, help=text)
    return field.name, Annotated[kind, option], field.default


def make_request_options(names: Collection[str]) -> Any:
    """Return a dataclass with one option for each of these fields of a request."""
    options = [_make_option(field) for field in REQUEST_FIELDS if field.name in names]
    # Without a docstring, `make_dataclass` takes a millisecond to write the signature into one.
    namespace = {"__doc__": "Options for fields of a request."}
    return make_dataclass(
        "_RequestOptions", options, frozen=True, kw_only=True, namespace=namespace
    )


def parse_features(features: str | None) -> Any:
    """Return the name of the features, or import the splitter "module:function"."""
    if features is None or ":" not in features:
        return features
    if not callable(splitter := import_object(features, "splitter")):
        raise InputError(f"--features module:function needs a function, but {features} is none.")
    return splitter


@Parameter(name="*")
class RequestOptions(make_request_options([field.name for field in REQUEST_FIELDS])):  # type: ignore[misc]
    """Select the target, the scale and the features of an explanation."""

    def keywords(self, each: str | None = None) -> dict[str, Any]:
        """Return the options as keywords of the Python functions.

        Parameters
        ----------
        each
            The value of --each. Options that it excludes are not returned.

        Raises
        ------
        InputError
            If the user gave an option that ``each`` excludes.
        """
        options = {
            field.name: getattr(self, field.name)
            for field in REQUEST_FIELDS
            if hasattr(self, field.name)
        }
        defaults = {field.name: field.default for field in REQUEST_FIELDS}
        for name in _EXCLUDED.get(each or "", ()):
            if options.pop(name) != defaults[name]:
                raise InputError(f"give --{name} or --each {each}, not both.")
        options["features"] = parse_features(self.features)
        numeric = [name for name in ("window", "at", "grid") if name in options]
        return options | {name: convert_digits(options[name]) for name in numeric}


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
        """The format of the result, such as "terminal" or "json"."""
        return select_format(self.format, self.output)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ExplainOptions:
    """Select the texts, the model, the budget, the settings and the output of an explanation.

    Parameters
    ----------
    budget
        Limit per text: a time (30, 30s, 2min) or a number of model calls ("400 calls"). Methods
        that sample choose their sample size to fit. The time to load the model does not count.
    until
        Sample until the strongest features are certain, such as "top 3", or until the budget ends.
        Exact methods need no samples.
    """

    budget: Annotated[str | None, Parameter(group=BUDGET)] = None
    until: Annotated[str | None, Parameter(group=BUDGET)] = None
    set: MethodSettings = ()
    texts: TextOptions = TextOptions()  # noqa: RUF009  (it is frozen)
    model: ModelOptions = ModelOptions()
    out: OutputOptions = OutputOptions()

    def explain_texts(
        self, function: Callable[..., Any], text: tuple[str, ...], *methods: Any, **keywords: Any
    ) -> TextResults[Any]:
        """Call ``explain``, ``compare`` or a similar function for the texts of the command.

        Parameters
        ----------
        function
            A function of :mod:`limelight.api` that takes a model and texts.
        text
            The texts that were given as arguments.
        methods
            Further positional arguments of the function.
        keywords
            Keywords of the function.

        Returns
        -------
        The results, which are computed when they are read.
        """
        check_quotes(text)
        self.texts.check()
        if self.budget is not None:
            parse_budget(self.budget)  # raises an error before the model is loaded
        if self.texts.source.has_parts:
            keywords["protect"] = convert_numbers(keywords["protect"])
        model, display = self.model.load(), show_progress("explaining")

        def explain_batch(texts: list[UserInput]) -> Any:
            """Call the function for some texts, with the settings of the command."""
            settings = parse_settings(self.set, function)
            if self.until is not None:
                settings["until"] = self.until
            with display:
                options = {"budget": self.budget, "progress": display, **keywords, **settings}
                return function(model, texts, *methods, **options)

        return self.texts.compute_results(
            text, explain_batch, list_warnings=_list_warnings, batch_size=texts_per_batch(model)
        )


def list_explanations(result: Any) -> list[Explanation]:
    """Return the explanations in a result: one, or one for each class, span or method."""
    if isinstance(result, Explanation):
        return [result]
    return list(result.values() if isinstance(result, dict) else result)


def _list_warnings(result: Any) -> list[str]:
    """List the warnings of all explanations in a result."""
    comparison_warnings = result.warnings if isinstance(result, Comparison) else ()
    return [*comparison_warnings, *merge_warnings(list_explanations(result))]


def check_quotes(texts: tuple[str, ...]) -> None:
    """Raise InputError if all texts are single words: the shell has split a text at its spaces."""
    if len(texts) > 1 and not any(len(text.split()) > 1 for text in texts):
        raise InputError(
            f"a text with spaces needs quotes, but these are {len(texts)} texts of one word. "
            f'Write "{truncate_line(" ".join(texts), 60)}", or give several texts one per line, '
            "with --file and --lines."
        )


def convert_digits(text: str | None) -> str | int | None:
    """Convert a text of digits to a number; return any other text unchanged."""
    return int(text) if text is not None and _NUMBER.fullmatch(text) else text


def convert_numbers(names: Sequence[str]) -> list[str | int]:
    """Convert the numbers among the names of documents and messages."""
    return [int(name) if _NUMBER.fullmatch(name) else name for name in names]


def split_names(option: str | None) -> list[str] | None:
    """Split names at commas; return None for None."""
    return None if option is None else [name.strip() for name in option.split(",")]
