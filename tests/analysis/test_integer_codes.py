"""Table lookups say what numpy's general functions say."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from whyidle.analysis.integer_codes import is_among, used_codes

columns = st.lists(st.integers(0, 40), max_size=60)


@given(columns, st.lists(st.integers(-1, 50), max_size=8))
def test_as_numpy(listed, wanted):
    column = np.array(listed, dtype=np.int32)
    assert used_codes(column).tolist() == np.unique(column).tolist()
    assert is_among(column, wanted).tolist() == np.isin(column, wanted).tolist()
