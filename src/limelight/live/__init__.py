"""The exact engine in JavaScript, and the page that carries it: explanations without Python."""

from limelight.live.live_page import live_page
from limelight.live.stored_tables import StoredTables, stored_tables

__all__ = ["StoredTables", "live_page", "stored_tables"]
