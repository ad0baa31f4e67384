"""Record which version and commit of limelight produced a stored result."""

__all__ = ["UNKNOWN", "describe_stamps", "source_stamp"]

import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from limelight import __version__

UNKNOWN = "unknown"
_PACKAGE = Path(__file__).resolve().parent
# Changes of these files change no measured number: results, pages and images made from them.
_NOT_CODE = (
    "*.md", "*.png", "*.svg", "*/results.json", "*/verdicts.json", "benchmarks/results",
    "benchmarks/references",
)  # fmt: skip
_SHORT = 10  # hexadecimal digits of a commit that a page shows


def source_stamp() -> dict[str, str]:
    """Return the version and the git commit of the limelight that is running.

    Only a program that measures calls this function, when it starts. Everything else copies the
    stamp of the result that it reads.

    Returns
    -------
    dict
        ``limelight``: the version. ``commit``: 40 hexadecimal digits, followed by
        "with uncommitted changes" if code differs from the commit, or by "with unknown changes" if
        git cannot compare them. It is "unknown" outside a git checkout.
    """
    return {"limelight": __version__, "commit": _current_commit()}


def _current_commit() -> str:
    """Return the git commit of the package, with a mark for uncommitted changes."""
    # An installed package may lie in the checkout of another project, which does not track it.
    if _run_git("ls-files", "--error-unmatch", "--", "__init__.py") is None:
        return UNKNOWN
    commit = _run_git("rev-parse", "HEAD")
    if commit is None:
        return UNKNOWN
    excluded = [f":(top,exclude){pattern}" for pattern in _NOT_CODE]
    changes = _run_git("status", "--porcelain", "--", ":(top)", *excluded)
    if changes is None:  # such as in a partial clone without some of its objects
        return f"{commit} with unknown changes"
    return f"{commit} with uncommitted changes" if changes else commit


def _run_git(*arguments: str) -> str | None:
    """Run git in the folder of the package; return its output, or None if it fails."""
    command = ["git", "-C", str(_PACKAGE), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    except OSError:  # git is not installed
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def describe_stamps(stamps: Iterable[Mapping[str, str]]) -> str:
    """Say in a sentence with which versions and commits results were measured.

    Parameters
    ----------
    stamps
        One stamp per result, as `source_stamp` returns it. If they differ, the sentence says how
        many results have each.

    Returns
    -------
    str
        Such as "Measured with limelight 0.4.0, commit 0123456789."

    Raises
    ------
    ValueError
        If there is no stamp.
    """
    counts = Counter(
        f"limelight {stamp['limelight']}, commit {_shorten(stamp['commit'])}" for stamp in stamps
    )
    if not counts:
        raise ValueError("describe_stamps needs at least one stamp.")
    if len(counts) == 1:
        return f"Measured with {next(iter(counts))}."
    *groups, last = (
        f"{source} ({count:,} result{'s' * (count > 1)})" for source, count in counts.most_common()
    )
    return f"Measured with {', '.join(groups)} and {last}."


def _shorten(commit: str) -> str:
    return re.sub(r"^[0-9a-f]{40}", lambda match: match[0][:_SHORT], commit)
