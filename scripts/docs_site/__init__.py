"""The documentation as a site: pages and navigation from ``docs/``, built by zensical, checked."""
