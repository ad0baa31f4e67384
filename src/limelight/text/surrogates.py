"""Halves of characters, which Python's strings can hold and files cannot."""

__all__ = ["LONE_SURROGATE"]

import re

LONE_SURROGATE = re.compile("[\ud800-\udfff]")
