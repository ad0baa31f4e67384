"""Every method against an oracle that takes another road."""

from limelight.checks.oracles import Check
from limelight.checks.verification import verify

__all__ = ["Check", "verify"]
