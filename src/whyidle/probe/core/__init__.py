"""What holds for every framework. Imports no framework, and nothing of ``frameworks``."""
