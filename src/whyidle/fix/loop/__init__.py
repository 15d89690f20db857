"""The loop of ``whyidle fix``: select a fix, test it against the baseline, keep or reject it."""
