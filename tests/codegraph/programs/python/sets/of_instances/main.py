class Listener:
    def hear(self):
        pass


listeners = {Listener()}
for listener in listeners:
    listener.hear()
