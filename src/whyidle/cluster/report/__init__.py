"""A fleet's GPU time: who was given it, and what became of it.

``reading`` asks the ledgers and meters, and joins their rows day by day in DuckDB (``tables``);
``report`` makes the document, ``advice`` says what to change.
"""
