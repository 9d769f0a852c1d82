"""Edit real objects at random, and let the real loaders judge: edited, stripped, edited again.

python scripts/edits.py -n 1000 --linked --wheels wheelhouse
python scripts/edits.py -n 500 --root /srv/arm64 --qemu qemu-aarch64-static
"""

import argparse
import itertools
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the oracles of the tests

from edit_campaign.campaign import Campaign
from edit_campaign.editors import Lief, Patchelf
from edit_campaign.loading import Loader, Machine
from edit_campaign.objects import Object, linked, of_folder, of_wheels


def main() -> int:
    """Run the campaign, and say what became of the cases."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-n", type=int, default=1000, help="number of edits")
    parser.add_argument("--seconds", type=float, default=1e9, help="end after this time")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--wheels", type=Path, metavar="DIR", help="objects of these wheels")
    parser.add_argument("--unpacked", type=Path, metavar="DIR", help="where wheels are unpacked")
    parser.add_argument("--linked", action="store_true", help="objects linked here")
    parser.add_argument("--root", type=Path, metavar="DIR", help="another machine's packages")
    parser.add_argument("--qemu", metavar="PROGRAM", help="runs programs of that machine")
    parser.add_argument("--strip", action="append", default=[], metavar="COMMAND")
    parser.add_argument("--patchelf", action="append", default=[], metavar="NAME=PROGRAM")
    parser.add_argument("--lief", metavar="PYTHON", help="a Python with LIEF")
    parser.add_argument("--work", type=Path, metavar="DIR", help="a fast folder, as /dev/shm")
    parser.add_argument("--edits", type=int, default=12, help="of each object at a time")
    parser.add_argument("--share", type=float, default=0.1, help="of the cases for other editors")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="objects with this in their name"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where objects at fault are kept")
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=options.work) as place:
        work = Path(place)
        objects = [o for o in _objects(options, work) if options.only in o.label]
        random.Random(options.first).shuffle(objects)  # noqa: S311 - reproducible by its seed
        runner = (options.qemu, "-L", str(options.root)) if options.qemu else ()
        loader = Loader(Machine(runner=runner, root=options.root), work)
        campaign = Campaign(
            loader=loader,
            work=work,
            strips=[command.split() for command in options.strip] or [["strip", "-s"]],
            editors=[
                *(Patchelf(*text.split("=", 1)) for text in options.patchelf),
                *([Lief("LIEF", options.lief)] if options.lief else []),
            ],
            edits=options.edits,
            share=options.share,
            keep=options.keep,
        )
        said = 0.0
        for seed, taken in enumerate(itertools.cycle(objects), options.first):
            campaign.run(taken, seed)
            seconds = time.monotonic() - started
            if seconds - said > 60:
                said = seconds
                print(f"-- {seconds:.0f} s: {campaign.counts.text()}", flush=True)
            if campaign.counts.edits >= options.n or seconds > options.seconds:
                break
        loader.close()
    print(f"{len(objects)} objects, {time.monotonic() - started:.0f} s")
    print(campaign.counts.text())
    return 1 if campaign.counts.failures else 0


def _objects(options: argparse.Namespace, work: Path) -> list[Object]:
    found: list[Object] = []
    if options.linked:
        found += linked(work / "linked")
    if options.wheels:
        found += of_wheels(options.wheels, options.unpacked or work / "wheels")
    if options.root:
        found += of_folder(options.root)
    return found


if __name__ == "__main__":
    sys.exit(main())
