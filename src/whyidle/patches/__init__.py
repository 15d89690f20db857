"""One source form per file; see ``whyidle.model.patch``."""
