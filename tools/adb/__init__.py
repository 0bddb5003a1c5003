"""Devices over ADB: directly (TCP, USB) or through an adb server, as byte streams to services of the device."""
