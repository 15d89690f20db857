"""The shield around a trial: it can overwrite nothing and publish nothing."""

from whyidle.engine.shield.guard import Leak, Shield, Written, shield

__all__ = ["Leak", "Shield", "Written", "shield"]
