"""One form of source text per file; see ``whyidle.model.patch``."""
