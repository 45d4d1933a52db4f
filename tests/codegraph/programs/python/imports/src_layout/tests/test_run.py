from app.run import go


def test_go():
    go()
