"""The page of results: its sections, its picture, and how each number is computed."""
