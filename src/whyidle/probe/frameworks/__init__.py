"""One folder per framework: its adapter installs hooks and reports what they see to the core."""
