"""A virtual phone: an arm64 machine in qemu with a hard memory limit and Google's adbd, for those without a phone."""
