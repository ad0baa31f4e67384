"""The name that :mod:`limelight.pages` had in 0.2; it goes with 0.4."""
