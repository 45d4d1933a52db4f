def top():
    def work():
        pass

    def middle():
        def low():
            work()

        low()

    middle()


top()
