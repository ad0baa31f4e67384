"""A pytest plug-in: each requirement of a check file (``*.limelight.toml``) is a test.

The module is outside the package, and imports limelight only if there is a check file. An import of
the package takes time, and other plug-ins may have to prepare it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from limelight.cases.case_file import Case, CaseFile
    from limelight.cases.check_cases import CaseText
    from limelight.models import Model

_DEFAULT_PATTERN = "*.limelight.toml"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the setting with the names of check files."""
    parser.addini(
        "limelight_files",
        f"Names of check files of limelight, as patterns. Default: {_DEFAULT_PATTERN}.",
        type="args",
        default=[_DEFAULT_PATTERN],
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a check file."""
    patterns = parent.config.getini("limelight_files")
    if any(file_path.match(pattern) for pattern in patterns):
        return CheckFile.from_parent(parent, path=file_path)
    return None


class FailedCheckError(Exception):
    """A requirement does not hold; the message says what was measured and required."""


class CheckFile(pytest.File):
    """A check file. Its model is loaded when the first test runs."""

    def collect(self) -> Iterator[CheckCase]:
        """Yield the cases of the file."""
        from limelight.errors import InputError

        try:
            cases = self.case_file.cases
        except InputError as error:
            raise self.CollectError(str(error)) from None
        for case in cases:
            yield CheckCase.from_parent(self, name=_escape_name(case.name), case=case)

    @cached_property
    def case_file(self) -> CaseFile:
        """The options of the model, and the cases."""
        from limelight.cases.case_file import read_case_file

        return read_case_file(self.path)

    @cached_property
    def model(self) -> Model:
        """The model of all cases."""
        from limelight.cases.check_cases import load_case_model

        return load_case_model(self.case_file)


class CheckCase(pytest.Collector):
    """A case of a check file."""

    def __init__(self, *, case: Case, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.case = case

    def collect(self) -> Iterator[CheckItem]:
        """Yield a test for each requirement of the case."""
        for key in self.case.requirements:
            yield CheckItem.from_parent(self, name=key)

    @cached_property
    def text(self) -> CaseText:
        """The text of the case, read by the model."""
        from limelight.cases.check_cases import CaseText

        return CaseText(cast(CheckFile, self.parent).model, self.case)


class CheckItem(pytest.Item):
    """A requirement of a case."""

    def runtest(self) -> None:
        """Raise `FailedCheckError` unless the requirement holds."""
        from limelight.errors import InputError

        try:
            result = cast(CheckCase, self.parent).text.check(self.name)
        except InputError as error:  # the model cannot be loaded
            raise FailedCheckError(str(error)) from None
        if result.outcome != "passed":
            raise FailedCheckError(result.sentence)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the sentence of a failure, without a traceback."""
        if isinstance(excinfo.value, FailedCheckError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return the file and the name of the test."""
        return self.path, None, f"{cast(CheckCase, self.parent).name}: {self.name}"


def _escape_name(name: str) -> str:
    """Return a name without the marks that separate parts of test ids."""
    return name.replace("::", ": ").replace("[", "(").replace("]", ")")
