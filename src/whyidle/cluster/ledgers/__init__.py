"""Who held which GPUs, and when: one scheduler or file format per file.

Each module has ``read(where, window) -> LedgerRows`` (``whyidle.model.fleet_rows``). It only reads.
"""
