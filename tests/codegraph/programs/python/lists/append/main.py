def a():
    pass


def b():
    pass


steps = [a]
steps.append(b)
steps[0]()
for step in steps[1:]:
    step()
