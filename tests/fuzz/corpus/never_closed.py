def f(acc):
    """a text that goes on
    return acc
