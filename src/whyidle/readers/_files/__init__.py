"""What all formats share: compressed streams, identification, reading in parallel."""
