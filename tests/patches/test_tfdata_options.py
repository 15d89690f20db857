"""Options of tf.data in a script."""

import pytest
from patching import added, rewrite

PIPELINE = """import tensorflow as tf
# pictures
ds = tf.data.Dataset.range(9).map(decode).batch(4)
"""
START = "import tensorflow as tf\nx = tf.data.Dataset.range(9)\n"


def test_the_pipeline_of_the_finding_gets_options():
    knob, value, option = "tfdata.pool", 16, "options.threading.private_threadpool_size = 16"
    assert (
        rewrite(PIPELINE, knob, value, lines=(3,)).text
        == f"""import tensorflow as tf
# pictures
options = tf.data.Options()
{option}
ds = tf.data.Dataset.range(9).map(decode).batch(4).with_options(options)
"""
    )


def test_in_a_function_too():
    text = f"{START}def make():\n    return x.interleave(read)\n"
    found = rewrite(text, "tfdata.pool", 4, lines=(4,)).text
    assert found.endswith(
        "    options = tf.data.Options()\n    options.threading.private_threadpool_size = 4\n"
        "    return x.interleave(read).with_options(options)\n"
    )


def test_an_option_that_is_set_gets_the_new_value():
    text = "import tensorflow as tf\no.threading.private_threadpool_size = 2\n"
    assert added(text, "tfdata.pool", 16) == [
        "-o.threading.private_threadpool_size = 2",
        "+o.threading.private_threadpool_size = 16",
    ]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("fit(x.map(decode))", "longer expression"),
        ("ds = x.map(decode).with_options(mine)", "its own options"),
        ("ds = x.map(decode); options = 1", "taken"),
    ],
)
def test_other_places_are_left_with_the_reason(line, why):
    found = rewrite(f"{START}{line}\n", "tfdata.pool", 16, lines=(3,))
    assert (found.done, why in found.why[0]) == (False, True)


def test_without_a_line_nothing_is_written():
    assert rewrite(PIPELINE, "tfdata.pool", 16).text == PIPELINE
