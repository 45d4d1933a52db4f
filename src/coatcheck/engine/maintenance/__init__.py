"""Background maintenance: the sweep, metrics, throughput and rekeying."""
