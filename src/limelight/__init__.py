"""Explains attention-based text classifiers, and says how far each number can be trusted."""

__version__ = "0.1.0"
