package org.dafmobile.core;

import java.util.Locale;

/** Where groups of stored activations are reduced and decoded. The results are the same everywhere. */
public enum ReduceMode {
  AUTO, // whatever is fastest
  CPU,
  VULKAN,
  OPENCL;

  /** As a run request has it. */
  public String inRequest() {
    return name().toLowerCase(Locale.ROOT);
  }
}
