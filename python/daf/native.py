"""The native module, loaded after the ExecuTorch library that it needs: `from daf import native`.

Takes about 0.3 s and some 100 MB of address space, so import it only where a program runs.
"""

from __future__ import annotations

from daf.errors import Exit, UserError

try:
    # The loader finds libraries by name once they are loaded; a module of their package is what loads this one. Its
    # symbols stay local: made global, ExecuTorch's kernels would register twice and abort.
    import executorch.extension.pybindings._portable_lib
except ImportError as error:
    raise UserError(
        f"cannot load ExecuTorch ({error}); install the version that daf-mobile pins: pip install daf-mobile",
        Exit.DEVICE,
    ) from error

try:
    from daf._native import DafError, Session, __version__, dropout, epoch_order, operator_names, run
except ImportError as error:
    raise UserError(
        f"cannot load daf's native module ({error}); build it with `make build`, or reinstall daf-mobile",
        Exit.DEVICE,
    ) from error

__all__ = ["DafError", "Session", "__version__", "dropout", "epoch_order", "operator_names", "run"]
