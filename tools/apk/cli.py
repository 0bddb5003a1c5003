"""`daf apk build`: a check build of the app, from packages alone."""

from __future__ import annotations

from pathlib import Path

import click

from daf.errors import UserError
from daf.files import check_output

FILE = click.Path(path_type=Path)


@click.group(short_help="Make a check build of the app.")
def apk() -> None:
    """Make a check build of the app for phones."""


@apk.command(short_help="Build, sign and check an APK without Android's SDK.")
@click.option("-o", "--output", type=FILE, help="Its name must say 'check'.  [default: build/daf-mobile-VERSION.apk]")
@click.option("--libraries", type=FILE, metavar="FOLDER", help="Native libraries, in a folder for each ABI.")
def build(output: Path | None, libraries: Path | None) -> None:
    """Build an APK from the sources in android/, sign it with this machine's debug key, and check it.

    It shows that sources, resources and libraries fit together, and is no release: that takes Gradle and the NDK.
    The file's name and the app itself say so.

    \b
    Examples:
      daf apk build
      daf apk build --libraries build/android-abi -o build/daf-check.apk
    """
    from daf.tools.apk.checks import check_apk
    from daf.tools.apk.package import find_project, make_apk, read_versions
    from daf.tools.apk.toolchain import find_toolchain

    project = find_project()
    target = output or project.parent / f"build/daf-mobile-{read_versions(project)['daf']}.apk"
    if "check" not in target.name or target.suffix != ".apk":
        raise click.UsageError(f"{target.name} must end in .apk and have 'check' in it: it is no release")
    if libraries is not None and not any(libraries.glob("*/*.so")):
        raise UserError(f"cannot use {libraries}: it has no libraries; put them into FOLDER/arm64-v8a, FOLDER/x86_64")
    target.parent.mkdir(exist_ok=True)
    check_output(target)
    tools = find_toolchain()
    make_apk(tools, project, libraries, target)
    for line in check_apk(tools, project, target):
        click.echo(line)
    click.echo(f"wrote {target} ({target.stat().st_size / 1000:.0f} kB)")
