def a(x): return x + 1
def b(x): return a(a(x))
def c(x): return b(b(x))
def f(acc):
    return c(c(acc))
