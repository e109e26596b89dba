"""What `make test COVER=1` says: each package has a floor, and one below its own fails."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from tests.support.sidecar import ROOT
from tools.check_coverage import main


@pytest.mark.parametrize(("run", "status"), [(8, 0), (7, 1), (0, 1)])
def test_a_package_below_its_floor_fails(
    run: int, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = {"a/x.py": (4, 4), "a/b/y.py": (6, run - 4), "ab/z.py": (100, 0)} if run else {}
    files = {path: {"summary": {"num_statements": of, "covered_lines": n}} for path, (of, n) in lines.items()}
    (tmp_path / "report").write_text(json.dumps({"files": files}))
    (tmp_path / "project").write_text('[tool.coverage_floors]\n"a" = 80\n')
    assert main(tmp_path / "report", tmp_path / "project") == status
    printed = capsys.readouterr().out
    assert f"{run * 10:.1f} %, at least 80 %" in printed
    assert ("BELOW" in printed) == bool(status)


def test_the_floors_are_of_packages_that_are_there() -> None:
    floors = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["coverage_floors"]
    assert [name for name in floors if not list((ROOT / name).glob("**/*.py"))] == []
    assert {"fastpath", "realtime", "entitlement", "spark"} <= {name.partition("/")[0] for name in floors}
