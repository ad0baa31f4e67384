"""Bundles the JavaScript of the pages when a wheel is built; see limelight/rendering/bundle.py."""

import importlib.util
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = Path(__file__).parent / "src" / "limelight"


class BundledScripts(BuildHookInterface):
    """Puts every page's script into the wheel as one file; an editable install reads modules."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the bundles to a folder that lasts as long as the build."""
        if version == "editable":
            return
        place = importlib.util.spec_from_file_location(
            "bundle", PACKAGE / "rendering" / "bundle.py"
        )
        bundle = importlib.util.module_from_spec(place)
        place.loader.exec_module(bundle)
        self.folder = tempfile.TemporaryDirectory(prefix="bundled-scripts-")
        for entry in bundle.ENTRIES:
            made = Path(self.folder.name) / entry.name
            made.write_text(bundle.bundle_module(entry), "utf-8")
            shipped = f"limelight/{entry.relative_to(PACKAGE).as_posix()}"
            build_data["force_include"][str(made)] = shipped

    def finalize(self, version: str, *_: object) -> None:
        """Remove what was written."""
        if version != "editable":
            self.folder.cleanup()
