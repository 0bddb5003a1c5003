"""DAF Mobile: PyTorch models as ExecuTorch programs that train on phones.

Importing this package is cheap; `daf.native` loads the runtime, `daf.exporter` needs torch.
"""
