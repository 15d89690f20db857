"""One root cause per file, one folder per family; see ``whyidle.model.cause``."""
