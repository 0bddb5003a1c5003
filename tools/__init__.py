"""The `daf` command: train, evaluate and inspect exported programs."""
