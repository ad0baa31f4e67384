"""The name that :mod:`limelight.runs` had in 0.2; it goes with 0.4."""

from warnings import warn

from limelight.runs import *  # noqa: F403

warn("limelight.corpus is now limelight.runs.", DeprecationWarning, stacklevel=2)
