"""Every method against an oracle that takes another road."""

from limelight.checks.verification import Check, verify

__all__ = ["Check", "verify"]
