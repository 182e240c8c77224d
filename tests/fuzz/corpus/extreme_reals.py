def f(acc):
    return acc * 4.9e-324 + 1.7976931348623157e308 - 1e309 + 0x1p-1
