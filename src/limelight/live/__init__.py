"""The exact engine in JavaScript, and the page that carries it: explanations without Python."""

from limelight.live.live_page import live_page, rounded_tables

__all__ = ["live_page", "rounded_tables"]
