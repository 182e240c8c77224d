def f(acc, bias: row):
    d = acc + bias
    return d
