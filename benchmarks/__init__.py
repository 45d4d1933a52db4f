"""Benchmarks of Coatcheck and its peers: the same work, in one run, on one disk. See README.md."""
