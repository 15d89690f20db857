"""Alerts: rules as data, their evaluation, and routes to people.

``rules.toml`` holds the shipped rules. The same rules can be written as a Prometheus rule file;
``tests/alerts`` holds both evaluations together.
"""
