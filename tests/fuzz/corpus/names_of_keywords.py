def lambda_(acc):
    return_ = acc
    None_, True1 = chunk(return_, 2)
    return None_ + True1
