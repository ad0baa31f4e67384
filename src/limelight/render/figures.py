"""The name that :mod:`limelight.pages.figures` had in 0.2; it goes with 0.4."""

from warnings import warn

from limelight.pages.figures import *  # noqa: F403

warn("limelight.render.figures is now limelight.pages.figures.", DeprecationWarning, stacklevel=2)
