"""The processes behind `coatcheck serve` and `coatcheck worker`."""
