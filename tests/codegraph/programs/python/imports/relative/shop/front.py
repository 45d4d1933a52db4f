from . import back
from .back import pay
from .deep.cellar import fetch


def serve():
    back.pay()
    pay()
    fetch()
