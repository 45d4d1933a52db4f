from ..back import pay
from ... import nothing  # beyond the top: Python refuses this when it runs


def fetch():
    pay()
