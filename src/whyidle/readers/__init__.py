"""Read recorded evidence: one format per file, or per folder with its parts. No other file lists
them; see ``model.plugin.Importer``."""
