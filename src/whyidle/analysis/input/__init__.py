"""How batches are made and waited for."""
