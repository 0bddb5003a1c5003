"""A check build of the app without Android's SDK and NDK: proves that sources, resources and libraries fit together."""
