def f(acc):
    return ÿş
