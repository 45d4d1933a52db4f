"""Tests for people who build on Coatcheck: the conformance suite and the state machine of stores.

They need the extra `coatcheck[testing]`.
"""
