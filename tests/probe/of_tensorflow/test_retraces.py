"""Which argument made a function be traced again."""

from whyidle.probe.frameworks.tensorflow import step_hooks


class Function:
    def __init__(self, python):
        self._python_function = python


class Tensor:
    def __init__(self, *shape, dtype="float32"):
        self.shape, self.dtype = shape, dtype


def step(x, y, lr=0.1):
    """As a job would write it."""


def described(*args, **kwds):
    return step_hooks.describe_arguments(Function(step), args, kwds)


def test_a_new_shape_is_told_beside_the_old_one():
    before, now = described(Tensor(8, 4), Tensor(8)), described(Tensor(7, 4), Tensor(8))
    assert step_hooks.explain_change(before, now) == "x: float32[7, 4] after float32[8, 4]"


def test_a_python_value_is_told_as_one():
    before, now = described(Tensor(8), 1, lr=0.1), described(Tensor(8), 1, lr=0.2)
    said = "lr: the Python value 0.2 after the Python value 0.1"
    assert step_hooks.explain_change(before, now) == said


def test_parts_of_arguments_have_names():
    before = described({"ids": Tensor(8, 5)}, [Tensor(8)])
    now = described({"ids": Tensor(8, 6)}, [Tensor(8)])
    assert "x['ids']: float32[8, 6]" in step_hooks.explain_change(before, now)


def test_arguments_that_do_not_fit_are_numbered():
    assert described(1, 2, 3, 4, 5)["argument 5"] == "the Python value 5"


def test_equal_arguments_mean_a_new_function():
    same = described(Tensor(8), Tensor(8))
    assert "new tf.function" in step_hooks.explain_change(same, same)
