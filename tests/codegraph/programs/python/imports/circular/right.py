import left


def catch():
    left.release()
