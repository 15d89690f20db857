"""What can be set of naps."""

from whyidle.model.knobs import Knob

NAP_LENGTH = Knob(
    "naps.length_ratio",
    float,
    "times as long as the script asks for that `time.sleep` sleeps",
    least=0.0,
    most=1.0,
    wording="time.sleep({value} * seconds) where the loop sleeps",
    implementation="naptime.nap_length",
)
