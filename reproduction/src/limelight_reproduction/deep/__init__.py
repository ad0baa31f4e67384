"""Deeper transformers, of our own making, to see what of the paper still holds."""
