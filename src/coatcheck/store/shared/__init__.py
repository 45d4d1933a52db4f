"""Code that both stores share: rows, fairness, limits, migrations, named SQL, signals."""
