"""Explanations on screen and paper: terminal, HTML pages, figures."""
