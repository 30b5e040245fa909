"""Build a release, and try it as someone who has the wheel and nothing else.

    python tools/release.py        # or make release

Builds sdist and wheel (`dist/`), checks both, installs the wheel into a fresh environment, and there, in an empty
folder, runs the demo and opens a folder of 100 pictures. Lists what was installed with its licences (`build/release/`).
The version is in `src/likewise/__init__.py`: the newest section of CHANGELOG.md and a tag of this commit must agree
with it.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
OUTPUT = ROOT / "build" / "release"
PICTURES = 100
# Draws the pictures with what the wheel brings: numbers in colours, no two alike.
_DRAW = f"""
from pathlib import Path
from PIL import Image, ImageDraw
Path("PHOTOS").mkdir()
for i in range({PICTURES}):
    picture = Image.new("RGB", (160, 120), (37 * i % 256, 91 * i % 256, 53 * i % 256))
    ImageDraw.Draw(picture).text((40, 30), str(i), fill="white", font_size=48)
    picture.save(f"PHOTOS/{{i:03}}.jpg")
"""


def version(text: str) -> str:
    """`__version__` of a module's text."""
    found = re.search(r'^__version__ = "([^"]+)"', text, re.MULTILINE)
    if not found:
        raise SystemExit("release: src/likewise/__init__.py has no __version__")
    return found[1]


def disagreements(number: str, changelog: str, tags: Sequence[str]) -> list[str]:
    """What CHANGELOG.md and the tags of this commit say instead of the version."""
    sections = re.findall(r"^## \[([^\]]+)\]", changelog, re.MULTILINE)
    newest = [] if sections[:1] == [number] else [f"CHANGELOG.md begins with {(sections or ['no section'])[0]}"]
    return newest + [f"this commit is tagged {tag}" for tag in tags if tag.startswith("v") and tag != f"v{number}"]


def run(*command: str | Path, **options: object) -> str:
    """Run a command; its output, or the end of the release."""
    print("release:", " ".join(map(str, command)), flush=True)
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True, **options)  # type: ignore
    if done.returncode:
        raise SystemExit(f"release: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def build(number: str) -> Path:
    """The wheel, after `twine check`; anything built before is deleted."""
    for old in (ROOT / "dist").glob("likewise-*"):
        old.unlink()
    run(sys.executable, "-m", "build", "--outdir", ROOT / "dist", ROOT)
    built = sorted((ROOT / "dist").glob(f"likewise-{number}*"))
    run(sys.executable, "-m", "twine", "check", "--strict", *built)
    return next(path for path in built if path.suffix == ".whl")


def install(wheel: Path, place: Path) -> Path:
    """A fresh environment with the wheel; its folder of programs."""
    run(sys.executable, "-m", "venv", place / "venv")
    programs = place / "venv" / "bin"
    run(programs / "python", "-m", "pip", "install", "--quiet", f"{wheel}[photos]")
    return programs


def try_out(programs: Path, place: Path) -> None:
    """The demo, and a folder of pictures, in an empty folder where nothing of the repository can be found."""
    empty = place / "empty"
    empty.mkdir()
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    demo = json.loads(run(programs / "likewise", "demo", "--json", cwd=empty, env=clean))
    for row in demo["methods"]:
        print(f"release:   {row['label']}: mAP {row['taught']:.3f} of taught labels, {row['new']:.3f} of new ones")
    run(programs / "python", "-c", _DRAW, cwd=empty, env=clean)
    print(f"release: the page has {_served(programs, empty, clean)} pictures")


def _served(programs: Path, folder: Path, environment: dict[str, str]) -> int:
    """`likewise PHOTOS/` until its page answers; the number of pictures on it."""
    command = [programs / "likewise", "PHOTOS/", "--no-browser", "--no-token", "--port", "8765"]
    with subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.DEVNULL) as server:
        try:
            found = _status("http://127.0.0.1:8765/api/status", server)["items"]
        finally:
            server.terminate()
    if found != PICTURES:
        raise SystemExit(f"release: the page has {found} pictures: expected {PICTURES}")
    return int(found)


def _status(address: str, server: subprocess.Popen[bytes], seconds: float = 300) -> dict[str, int]:
    until = time.monotonic() + seconds
    while time.monotonic() < until and server.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                return dict(json.load(answer))
        except OSError:
            time.sleep(0.2)
    raise SystemExit(f"release: {address} does not answer")


def list_contents(programs: Path, number: str) -> None:
    """What was installed: a CycloneDX bill of materials, and the licences."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    sbom, licences = OUTPUT / f"likewise-{number}.sbom.json", OUTPUT / f"likewise-{number}.licences.md"
    run(sys.executable, "-m", "cyclonedx_py", "environment", programs / "python", "--output-reproducible", "-o", sbom)
    options = ("--from=mixed", "--format=markdown", "--with-urls")
    licences.write_text(run(sys.executable, "-m", "piplicenses", f"--python={programs / 'python'}", *options))
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in licences.read_text().splitlines()]
    unknown = [name for name, _, licence, *_ in rows if licence == "UNKNOWN"]
    print(f"release: {licences.relative_to(ROOT)}; without a stated licence: {', '.join(unknown) or 'none'}")


def main() -> None:
    number = version((ROOT / "src" / "likewise" / "__init__.py").read_text())
    tags = run("git", "-C", ROOT, "tag", "--points-at", "HEAD").split()
    if found := disagreements(number, (ROOT / "CHANGELOG.md").read_text(), tags):
        raise SystemExit(f"release: the version is {number}, but {' and '.join(found)}")
    wheel = build(number)
    with tempfile.TemporaryDirectory(prefix="likewise-release-") as place:
        programs = install(wheel, Path(place))
        try_out(programs, Path(place))
        list_contents(programs, number)
    print(f"release: {number} is in dist/; tag the commit v{number}")


if __name__ == "__main__":
    main()
