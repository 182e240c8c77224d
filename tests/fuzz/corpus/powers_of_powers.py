def f(acc):
    return acc ** 2 ** -1 ** 3 % 7 // 2
