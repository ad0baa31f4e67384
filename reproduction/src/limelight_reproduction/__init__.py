"""Reproduction of the paper: its figures, numbers and claims, and its open questions."""
