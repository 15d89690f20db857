"""Read recorded evidence: one format per file, or per folder with its parts."""
