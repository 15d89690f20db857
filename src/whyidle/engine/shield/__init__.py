"""The shield around a trial: it can overwrite nothing and publish nothing."""

from whyidle.engine.shield.guard import Shield, Written, shield

__all__ = ["Shield", "Written", "shield"]
