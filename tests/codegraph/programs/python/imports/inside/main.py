def load(which):
    if which:
        from fast import parse
    else:
        from slow import parse
    return parse()


try:
    from fast import missing
except ImportError:
    from slow import missing

load(True)
load(False)
missing()
