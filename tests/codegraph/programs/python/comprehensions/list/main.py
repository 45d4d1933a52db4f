def a():
    return 1


def b():
    return 2


results = [job() for job in (a, b)]
{job() for job in [a]}
