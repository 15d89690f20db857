"""The shield around a trial: it can overwrite nothing and publish nothing."""

from whyidle.engine.shield.guard import Behind, Leak, Shield, Written, shield
from whyidle.engine.shield.kinds import LEVELS, Level
from whyidle.engine.shield.shelves import Stock
from whyidle.engine.shield.stale import mark

__all__ = ["LEVELS", "Behind", "Leak", "Level", "Shield", "Stock", "Written", "mark", "shield"]
