"""What to do before a long run: search its settings, prepare its data, predict it on more ranks."""
