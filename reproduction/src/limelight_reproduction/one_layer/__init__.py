"""Experiments on the paper's classifier: one layer, everything exact."""
