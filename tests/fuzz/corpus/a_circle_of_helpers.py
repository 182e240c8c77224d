def a(x): return b(x)
def b(x): return a(x)
def f(acc):
    return a(acc)
