class Log:
    def write(self):
        pass


class App:
    log = Log()

    def run(self):
        self.log.write()
        App.log.write()


App().run()
