"""One page per file: what it reads, and what its template needs besides."""
