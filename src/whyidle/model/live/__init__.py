"""What is known of a machine or job while it runs: telemetry, metrics, looks, alerts."""
