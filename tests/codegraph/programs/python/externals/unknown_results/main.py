import json

data = json.loads("{}")
data.get("a")


def get():
    pass
