"""An example of a package with plug-ins for whyidle: training jobs that sleep in every step."""
