"""Compare every exact method with an independent reference."""

from limelight.verification.verification import Check, verify

__all__ = ["Check", "verify"]
