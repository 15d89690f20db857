"""The clinic: sick and healthy training jobs with known truth, which score the diagnosis.

See ``clinic/README.md``. Nothing here ships in the wheel, and the product reads none of it.
"""
