"""From the recordings of one job to its diagnosis: proofs, findings, verdict."""
