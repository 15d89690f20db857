"""The values that everything else exchanges."""
