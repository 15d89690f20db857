"""Where steps begin and end, which are steady, and what changes them."""
