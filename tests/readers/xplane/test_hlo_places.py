"""The lines that operations of compiled programs come from."""

from profiles import nested, number

from whyidle.readers.xplane.hlo_places import read_operations

FILES = ("/home/ann/train.py", "/env/lib/python3.11/site-packages/optax/update.py")
INDEX = (
    b"".join(nested(1, name) for name in FILES)
    + b"".join(nested(3, number(1, file) + number(3, line)) for file, line in [(1, 9), (2, 40)])
    + b"".join(nested(4, number(1, place) + number(2, above)) for place, above in [(1, 0), (2, 1)])
)
"""frame 1 is a line of the script, frame 2 one of optax that it called"""


def operation(name, traced, frame):
    about = nested(2, traced) + number(15, frame)
    return nested(2, nested(1, name) + nested(7, about))


def program(*operations):
    """An entry of the map of events that holds a program."""
    module = nested(3, b"".join(operations)) + nested(17, INDEX)
    return nested(2, nested(5, nested(6, nested(1, module))))


def read(*entries):
    data, spans = b"".join(entries), []
    for entry in entries:
        begin = spans[-1][1] if spans else 0
        spans.append((begin, begin + len(entry)))
    return read_operations(data, spans)


def test_an_operation_has_the_line_of_the_script_that_led_to_it():
    found = read(
        program(
            operation("dot.1", "jit(step)/jvp()/dot_general", 1),
            operation("dot.2", "jit(step)/transpose(jvp())/dot_general", 1),
            operation("fusion", "jit(step)/mul", 2),
            operation("copy", "", 1),
            operation("odd", "jit(step)/add", 7),
        )
    )
    assert found == {
        "dot.1": "dot_general of train.py:9",
        "dot.2": "dot_general of train.py:9, backward",
        "fusion": "mul of train.py:9",
    }


def test_a_name_of_two_programs_says_nothing():
    one = program(operation("dot", "jit(f)/dot_general", 1), operation("tanh", "jit(f)/tanh", 1))
    other = program(operation("dot", "jit(g)/dot_general", 1))
    assert read(one, other) == {"tanh": "tanh of train.py:9"}


def test_damage_loses_one_program_only():
    good = program(operation("dot", "jit(f)/dot_general", 1))
    assert read(good[:-9], good) == {"dot": "dot_general of train.py:9"}
