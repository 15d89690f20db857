"""Watches a whole machine from outside: its GPUs, and the jobs that hold them."""
