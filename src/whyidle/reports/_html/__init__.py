"""The sections of the HTML page; ``element`` builds safe markup."""
