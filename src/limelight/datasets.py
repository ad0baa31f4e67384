"""The name that :mod:`limelight.data` had in 0.2; it goes with 0.4."""

from warnings import warn

from limelight.data import *  # noqa: F403

warn("limelight.datasets is now limelight.data.", DeprecationWarning, stacklevel=2)
