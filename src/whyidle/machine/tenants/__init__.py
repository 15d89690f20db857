"""Whose process it is, one scheduler or runtime per file: see ``model.tenancy.TenantReader``."""
