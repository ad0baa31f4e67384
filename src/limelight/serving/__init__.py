"""A page on this machine: type and see, compare, and look through a whole data set."""

__all__ = ["Serving", "serve"]

from limelight.serving.server import Serving, serve
