def f(acc):
	x = acc
        y = x
    return y
