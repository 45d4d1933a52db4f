"""`coatcheck demo`: a server and a sample job for each surface."""
