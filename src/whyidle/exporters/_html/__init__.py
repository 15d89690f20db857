"""The sections of the HTML page, from the verdict down; ``element`` builds safe markup."""
