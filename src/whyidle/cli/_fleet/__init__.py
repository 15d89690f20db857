"""The subcommands of `whyidle fleet`, a module each."""
