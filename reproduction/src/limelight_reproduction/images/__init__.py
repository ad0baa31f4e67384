"""The paper over patches of pictures: its theorems, its figures, and a vision transformer."""
