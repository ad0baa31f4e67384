"""Chat servers that return answers but no log-probabilities."""
