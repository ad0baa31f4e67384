"""Sampling: masks, weights, regression with standard errors, anchors; any model is a game."""
