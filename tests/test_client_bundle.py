"""The JavaScript client as one file: it is what its modules give, and what a bundle cannot hold is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tools.client_bundle import FOLDER, MAIN, UnknownForm, bundle

HINT = "`make client` writes it anew"


def test_the_file_and_its_map_are_what_the_modules_give() -> None:
    made = bundle()
    assert (FOLDER / "client.js").read_text(encoding="utf-8") == made.script, HINT
    assert (FOLDER / "client.js.map").read_text(encoding="utf-8") == made.map, HINT


def test_it_imports_nothing_and_has_each_module_once() -> None:
    """Nor has it anything that a storage of static files would take for an import."""
    made = bundle()
    assert not re.search(r"^import\b|\bimport\(|^export (?!\{)", made.script, re.MULTILINE)
    modules = {path.relative_to(FOLDER).as_posix() for path in (FOLDER / "client").rglob("*.js")}
    assert sorted(re.findall(r"\(\(\) => \{ // (client/\S+)$", made.script, re.MULTILINE)) == sorted(modules)
    assert sorted(json.loads(made.map)["sources"]) == sorted(modules)


@pytest.mark.parametrize(
    ("main", "fault"),
    [
        ('import * as all from "./a.js";', "client/client.js: import * as all"),
        ('import { one as two } from "./a.js";', "client/client.js: import { one as two }"),
        ('import { one, one as two } from "./a.js";', "client/client.js: import { one, one as two }"),
        ('import { one } from "./a.js";\nexport { one as two };', "client/client.js: export { one as two }"),
        ('const one = await import("./a.js");', 'client/client.js: import("./a.js")'),
        ("const here = import.meta.url;", "client/client.js: import.meta"),
        ('import all from "./a.js";', "client/client.js: import all"),
        ('import "./a.js";', 'client/client.js: import "./a.js"'),
        ('import { one } from "elsewhere";', "client/client.js: import { one }"),
        ("export default 1;", "client/client.js: export default"),
        ("export let one = 1;", "client/client.js: export let"),
        ('export { one } from "./a.js";', "client/client.js: export { one } from"),
        ('import { one } from "./ring.js";', "a ring"),
    ],
)
def test_another_form_of_import_or_export_is_refused(tmp_path: Path, main: str, fault: str) -> None:
    """And not put into the file as something that means another thing."""
    (tmp_path / "client").mkdir()
    (tmp_path / MAIN).write_text(f"{main}\n")
    (tmp_path / "client/a.js").write_text("export const one = 1;\n")
    (tmp_path / "client/ring.js").write_text('import { connect } from "./client.js";\nexport const one = 1;\n')
    with pytest.raises(UnknownForm, match=re.escape(fault)):
        bundle(tmp_path)
