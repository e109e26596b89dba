"""The JavaScript client in Node: the one that Playwright brings along."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import playwright

from tests.support.browser.chromium import ROOT

NODE = Path(playwright.__file__).parent / "driver" / "node"
CLIENT = (ROOT / "realtime/static/realtime/client.js").as_uri()
SECONDS_MAX = 30


def in_node(script: str, argument: Any) -> Any:
    """What a script returns, as JSON: the body of an async function of ``connect`` and ``argument``."""
    program = f"""
        import {{ connect }} from {json.dumps(CLIENT)};
        const told = await (async (argument) => {{ {script} }})({json.dumps(argument)});
        // The process ends when all of it has gone: a pipe holds 64 KiB.
        process.stdout.write(JSON.stringify(told), () => process.exit(0));
    """
    done = subprocess.run(
        [NODE, "--input-type=module", "--eval", program], capture_output=True, text=True, timeout=SECONDS_MAX
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    return json.loads(done.stdout)
