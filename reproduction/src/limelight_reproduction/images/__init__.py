"""The paper for image patches: its theorems, its figures, and a vision transformer."""
