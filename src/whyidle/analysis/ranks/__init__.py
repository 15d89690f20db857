"""Ranks: collectives, who is late, exposed communication, more ranks."""
