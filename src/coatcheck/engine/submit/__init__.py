"""Submitting jobs: validation, idempotency keys, quotas and admission."""
