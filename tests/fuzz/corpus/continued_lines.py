def f(acc):
    return (acc
  + # why

 1) \
    * 2
