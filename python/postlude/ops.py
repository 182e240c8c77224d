"""The operations of the epilogue language, made from its table. `help(post.gelu)` says what each is."""
from ._operations import public

inf = float("inf")
nan = float("nan")
globals().update(public)
__all__ = ["inf", "nan", *public]
