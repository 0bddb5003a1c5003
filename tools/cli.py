"""The `daf` command group.

Command modules are light: whatever needs torch, executorch or numpy is imported when a command runs, so that --help
and tab completion answer at once.
"""

from __future__ import annotations

import click

from daf.cli_errors import run_command
from daf.tools.apk.cli import apk
from daf.tools.bench import bench
from daf.tools.compare import compare
from daf.tools.data import data
from daf.tools.demo import demo
from daf.tools.device_files import install, logs, pull, push, shell_env
from daf.tools.devices import devices
from daf.tools.doctor import doctor
from daf.tools.evaluate import evaluate
from daf.tools.phone.cli import phone
from daf.tools.report import report
from daf.tools.run import run
from daf.tools.tune import tune


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="daf-mobile", message="daf %(version)s")
def daf() -> None:
    """Train PyTorch models as ExecuTorch programs.

    \b
    Make a program:    daf-export cnn_digits -o digits.pte
    Make its data:     daf data cnn_digits --split train -o train.safetensors
    Train it:          daf run digits.pte --data train.safetensors --steps 200 --save digits.safetensors

    Tab completion (bash): eval "$(_DAF_COMPLETE=bash_source daf)"
    """


for command in (
    *(run, evaluate, data, report, compare, demo, doctor, tune, bench),
    *(devices, phone, push, pull, install, apk, logs, shell_env),
):
    daf.add_command(command)


def main() -> None:
    run_command(daf)


if __name__ == "__main__":
    main()
