def f(acc, t: tile):
    m, s = reduce((acc, t), combine=lambda a, b, c, d: (max(a, c), b + d), identity=(-inf, 0), axis=1)
    return m, s
