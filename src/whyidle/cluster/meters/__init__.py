"""How busy GPUs were: one source of history per file.

Each module has ``read(where, window, work, progress)``, which returns a ``MeterTable``
(``whyidle.model.fleet_rows``).
"""
