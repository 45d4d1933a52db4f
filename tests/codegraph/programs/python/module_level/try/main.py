def risky():
    pass


def cleanup():
    pass


try:
    risky()
except ValueError:
    cleanup()
else:
    cleanup()
finally:
    cleanup()
