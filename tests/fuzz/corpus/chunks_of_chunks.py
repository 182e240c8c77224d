def f(acc):
    x, y = chunk(acc, 2, group=16)
    z, w = chunk(x * y, 2)
    return concat((z, w), group=4)
