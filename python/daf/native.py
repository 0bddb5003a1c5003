"""The native module, loaded after the ExecuTorch library that it needs: `from daf import native`.

Takes about 0.3 s and 110 MB (ExecuTorch's package links torch's libraries), so import it only where a program runs.
"""

from __future__ import annotations

import importlib

from daf.errors import Exit, UserError

try:
    # daf._native names this library as needed, and the dynamic loader finds it because it is loaded already. Its
    # symbols stay local: made global, ExecuTorch's kernels would register twice and abort.
    importlib.import_module("executorch.extension.pybindings._portable_lib")
except ImportError as error:
    raise UserError(
        f"cannot load ExecuTorch ({error}); install the version that daf-mobile pins: pip install daf-mobile",
        Exit.DEVICE,
    ) from error

try:
    from daf._native import (
        DafError,
        OperatorCall,
        Session,
        __version__,
        current_isa,
        dropout,
        epoch_order,
        fit_bits,
        max_workspace_bytes,
        operator_names,
        reduce_devices,
        run,
        set_threads,
        store_and_read,
        store_bytes,
        tune_reduce,
        tuned_sizes,
    )
except ImportError as error:
    raise UserError(
        f"cannot load daf's native module ({error}); build it with `make build`, or reinstall daf-mobile",
        Exit.DEVICE,
    ) from error

try:
    current_isa()  # chosen now, once for this process
except ValueError as error:  # DAF_ISA names none
    raise UserError(str(error), Exit.USAGE) from error

__all__ = [
    "DafError",
    "OperatorCall",
    "Session",
    "__version__",
    "current_isa",
    "dropout",
    "epoch_order",
    "fit_bits",
    "max_workspace_bytes",
    "operator_names",
    "reduce_devices",
    "run",
    "set_threads",
    "store_and_read",
    "store_bytes",
    "tune_reduce",
    "tuned_sizes",
]
