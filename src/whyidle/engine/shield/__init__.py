"""The shield around a trial: it can overwrite nothing and publish nothing."""

from whyidle.engine.shield.guard import Leak, Shield, Written, shield
from whyidle.engine.shield.stale import mark

__all__ = ["Leak", "Shield", "Written", "mark", "shield"]
