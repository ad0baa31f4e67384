"""The paper's experiments, run again: figures, numbers, claims, and what they leave open."""
