"""Questions that the paper and its critics leave open, measured on the one-layer classifier."""
