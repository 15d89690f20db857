"""A search over hyperparameters: ``whyidle tune``."""
