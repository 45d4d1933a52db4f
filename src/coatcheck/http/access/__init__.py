"""The endpoints for keys, tenants and usage."""
