"""Sequence classifiers of the transformers library. Needs torch and transformers."""
