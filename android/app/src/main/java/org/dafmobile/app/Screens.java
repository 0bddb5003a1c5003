package org.dafmobile.app;

import android.app.Activity;
import android.view.View;
import android.widget.TextView;
import org.dafmobile.core.DafException;
import org.dafmobile.core.ErrorKind;
import org.dafmobile.core.ReduceMode;
import org.dafmobile.core.RunState;

/** What the screens have in common. */
final class Screens {
  private Screens() {}

  /** Hides the line that only check builds have. */
  static void setContent(Activity activity, int layout) {
    activity.setContentView(layout);
    TextView line = (TextView) activity.findViewById(R.id.check_build);
    line.setVisibility(line.getText().length() == 0 ? View.GONE : View.VISIBLE);
  }

  static int stateText(RunState.Phase phase) {
    switch (phase) {
      case STARTING:
        return R.string.state_starting;
      case RUNNING:
        return R.string.state_running;
      case PAUSED:
        return R.string.state_paused;
      case STOPPING:
        return R.string.state_stopping;
      case DONE:
        return R.string.state_done;
      case STOPPED:
        return R.string.state_stopped;
      default:
        return R.string.state_failed;
    }
  }

  static int reduceText(ReduceMode mode) {
    switch (mode) {
      case CPU:
        return R.string.reduce_cpu;
      case VULKAN:
        return R.string.reduce_vulkan;
      case OPENCL:
        return R.string.reduce_opencl;
      default:
        return R.string.reduce_auto;
    }
  }

  static String errorText(Activity activity, DafException error) {
    return activity.getString(headingOf(ErrorKind.of(error))) + "\n" + error.getMessage();
  }

  private static int headingOf(ErrorKind kind) {
    switch (kind) {
      case REQUEST:
        return R.string.error_request;
      case PROGRAM:
        return R.string.error_program;
      case DATA:
        return R.string.error_data;
      case WEIGHTS:
        return R.string.error_weights;
      case STORAGE:
        return R.string.error_storage;
      case MEMORY:
        return R.string.error_memory;
      default:
        return R.string.error_device;
    }
  }
}
