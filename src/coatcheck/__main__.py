"""`python -m coatcheck` is the command line."""

from coatcheck.cli.main import main

if __name__ == "__main__":
    main()
