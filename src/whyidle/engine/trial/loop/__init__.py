"""The loop of ``whyidle fix``: choose a candidate, test it against the baseline, keep or reject
it."""
