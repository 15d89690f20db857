"""Lines of twins side by side."""

from field.twins import Row, Twins, pair_lines, render_twins


def test_lines_are_paired_by_their_text():
    sick = {"forward: y = net(x)": 0.008, "batch: rows.append(x)": 0.004}
    cured = {"forward: y = net(x)": 0.003, "batch: stack(rows)": 0.001}
    assert pair_lines(sick, cured) == (
        Row("forward: y = net(x)", 0.008, 0.003),
        Row("batch: rows.append(x)", 0.004, None),
        Row("batch: stack(rows)", None, 0.001),
    )


def test_a_shared_line_that_is_slower_beside_the_cause_is_marked():
    rows = (Row("model", 0.0080, 0.0030), Row("loss", 0.0011, 0.0010), Row("load", 0.004, None))
    page = render_twins("job", Twins(sick_s=0.0131, cured_s=0.004, told=(1.4, 1.2, 1.6), rows=rows))
    assert "job: measured 3.27, told 1.40 (1.20 to 1.60)" in page
    marked = [line for line in page.splitlines() if "slower beside" in line]
    assert marked == ["| 8.00 | 3.00 | `model` **slower beside the cause** |"]
    assert "| 4.00 |  | `load` |" in page
