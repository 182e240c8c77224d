def f(acc):
    return repeat(sum(acc, axis=1, group=8), 8) / sum(acc, axis=0, batch=True)
