"""Large payloads: the blob store, uploads and signed uploads."""
