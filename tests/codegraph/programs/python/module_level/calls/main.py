import config

print("starting")


def setup():
    config.load()


if __name__ == "__main__":
    setup()
