"""Deeper transformers, on which the findings of the paper are tested again."""
