"""The prelude: elementwise functions of the epilogue language, written in it.

A backend that has a version of its own uses that; the others compute what stands here. None makes a NaN of a finite
argument, and all give NaN for NaN.
"""


def relu(x):
    """max(x, 0)."""
    return max(x, 0)


def leaky_relu(x, slope=0.01):
    """x where it is not negative, else slope * x."""
    return where(x >= 0, x, slope * x)


def sigmoid(x):
    """1 / (1 + exp(-x)), with small relative error for every x."""
    e = exp(-abs(x))
    return where(x >= 0, 1.0, e) / (1 + e)


def silu(x):
    """x * sigmoid(x), also called swish."""
    return x * sigmoid(x)


def gelu_tanh(x):
    """The tanh form of gelu: x / 2 * (1 + tanh(u)) with u = sqrt(2 / pi) * (x + 0.044715 * x ** 3), as x * sigmoid(2 * u)."""
    return x * sigmoid(1.5957691216057308 * x * (1 + 0.044715 * x * x))


def gelu(x):
    """gelu_tanh(x)."""
    return gelu_tanh(x)


def gelu_erf(x):
    """x times the normal distribution at x."""
    return 0.5 * x * (1 + erf(0.7071067811865476 * x))


def quick_gelu(x):
    """x * sigmoid(1.702 * x)."""
    return x * sigmoid(1.702 * x)


def softplus(x):
    """log(1 + exp(x))."""
    return max(x, 0) + log1p(exp(-abs(x)))


def logsigmoid(x):
    """log(sigmoid(x))."""
    return min(x, 0) - log1p(exp(-abs(x)))


def mish(x):
    """x * tanh(softplus(x))."""
    return x * tanh(softplus(x))


def elu(x, alpha=1.0):
    """x where it is positive, else alpha * (exp(x) - 1)."""
    return where(x > 0, x, alpha * expm1(min(x, 0)))


def selu(x):
    """elu, scaled so that activations keep mean 0 and variance 1."""
    return 1.0507009873554805 * elu(x, 1.6732632423543772)


def clamp(x, low, high):
    """x, but at least low and at most high."""
    return min(max(x, low), high)


def relu6(x):
    """x between 0 and 6."""
    return clamp(x, 0, 6)


def hardtanh(x, low=-1.0, high=1.0):
    """x between low and high."""
    return clamp(x, low, high)


def hardsigmoid(x):
    """A straight line from 0 at -3 to 1 at 3."""
    return clamp(x + 3, 0, 6) / 6


def hardswish(x):
    """x * hardsigmoid(x)."""
    return x * hardsigmoid(x)


def softsign(x):
    """x / (1 + abs(x))."""
    return x / (1 + abs(x))


def tanhshrink(x):
    """x - tanh(x)."""
    return x - tanh(x)


def sign(x):
    """-1, 0 or 1; a zero keeps its sign."""
    return where(x > 0, 1, where(x < 0, -1, x))


def isnan(x):
    """Whether x is NaN."""
    return x != x


def isinf(x):
    """Whether x is infinite."""
    return abs(x) == inf


def isfinite(x):
    """Whether x is neither infinite nor NaN."""
    return abs(x) < inf


def mod(a, b):
    """a - (a // b) * b, which is what a % b means."""
    return a - (a // b) * b


def lerp(a, b, t):
    """a + t * (b - a)."""
    return a + t * (b - a)


def logaddexp(a, b):
    """log(exp(a) + exp(b))."""
    return where(a == b, a + 0.6931471805599453, max(a, b) + log1p(exp(-abs(a - b))))


def drelu(x):
    """The derivative of relu: 0 at 0."""
    return where(x > 0, 1.0, where(x <= 0, 0.0, x))


def dsigmoid(x):
    """The derivative of sigmoid."""
    e = exp(-abs(x))
    return e / ((1 + e) * (1 + e))


def dtanh(x):
    """The derivative of tanh."""
    return 4 * dsigmoid(2 * x)


def dsilu(x):
    """The derivative of silu."""
    s = sigmoid(x)
    return s * (1 + x * (1 - s))


def dgelu_tanh(x):
    """The derivative of gelu_tanh; beyond 30 it is 0 or 1."""
    c = clamp(x, -30.0, 30.0)
    s = sigmoid(1.5957691216057308 * c * (1 + 0.044715 * c * c))
    return s + s * (1 - s) * c * (1.5957691216057308 + 0.2140644488 * c * c)


def dgelu(x):
    """The derivative of gelu."""
    return dgelu_tanh(x)


def dgelu_erf(x):
    """The derivative of gelu_erf."""
    return 0.5 * (1 + erf(0.7071067811865476 * x)) + 0.3989422804014327 * x * exp(-0.5 * x * x)
