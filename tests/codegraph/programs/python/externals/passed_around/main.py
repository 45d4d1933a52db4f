import json

dump = json.dumps


def save(writer):
    writer({})


save(dump)
tools = {"load": json.loads}
tools["load"]("1")
