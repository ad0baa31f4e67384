"""Formulas of the paper and for its classifier: arrays in, arrays out."""
