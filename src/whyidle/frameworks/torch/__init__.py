"""What PyTorch calls things."""
