import json
import pytest
from isolation.scene import staged, tried, USER


@pytest.mark.parametrize("uid", [0, USER])
def test_x(uid):
    with staged("", uid=uid) as scene:
        found, built = tried(scene)
    import pathlib

    pathlib.Path(f"/tmp/c/found-{uid}.json").write_text(json.dumps([found, built], indent=1))
