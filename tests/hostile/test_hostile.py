"""Files that are made to do harm are read or refused in one line, soon and in little memory."""

import pytest

from tests.hostile.case import outcome
from tests.hostile.cases import cases

CASES = list(cases())


@pytest.mark.filterwarnings("ignore")  # of libraries, on files that make no sense
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_hostile_files(case, tmp_path):
    found = outcome(case, tmp_path)
    assert not found.wrong, f"{found.wrong}: {found.line}"


def test_there_are_files_for_every_loader():
    assert len(CASES) > 500 and len({case.loader for case in CASES}) > 25
