"""Cases of a check file: texts, and what must hold for the predictions of a model."""
