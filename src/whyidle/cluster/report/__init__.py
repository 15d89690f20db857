"""A fleet's GPU time: who was given it, and what became of it.

``reading`` asks the ledgers and meters, ``tables`` puts their rows into DuckDB, ``day_sums`` joins
them day by day, ``report`` makes the document, ``advice`` says what to change.
"""
