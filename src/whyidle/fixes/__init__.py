"""One fix per file; see ``whyidle.model.fix``."""
