"""The field suite: small jobs written from public reports of slow training, with known truth."""
