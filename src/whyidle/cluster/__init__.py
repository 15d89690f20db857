"""A cluster's GPU-hours, and the page for a team."""
