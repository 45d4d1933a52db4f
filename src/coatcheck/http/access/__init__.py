"""Endpoints for keys, tenants, usage and the audit trail."""
