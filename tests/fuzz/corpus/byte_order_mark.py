def f(acc):
    return acc
