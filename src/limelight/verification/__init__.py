"""Every method against an oracle that takes another road."""

from limelight.verification.verification import Check, verify

__all__ = ["Check", "verify"]
