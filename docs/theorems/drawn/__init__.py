"""The figures of the pages on theorems, drawn from the library's own functions."""
