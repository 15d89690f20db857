"""One machine seen from outside the job: watch, attach, alerts, publishers, checks."""
