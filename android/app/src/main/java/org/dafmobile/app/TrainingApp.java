package org.dafmobile.app;

import android.app.Application;
import android.content.Context;
import android.content.pm.PackageManager;
import android.os.PowerManager;
import android.os.Process;
import java.io.File;
import org.dafmobile.core.AppFolder;
import org.dafmobile.core.Conditions;
import org.dafmobile.core.DafException;
import org.dafmobile.core.NativeRun;
import org.dafmobile.core.RunController;
import org.dafmobile.core.TrainingRun;

/** Holds what outlives activities and the service: the folder and the controller of runs. */
public final class TrainingApp extends Application {
  private AppFolder folder;
  private RunController controller;
  private volatile TrainingRun.Listener serviceListener;

  @Override
  public void onCreate() {
    super.onCreate();
    Compat.createChannel(this, getString(R.string.channel_name));
    try {
      // Shared storage of this app alone, which the shell reaches too; its own storage while that is not mounted.
      File shared = getExternalFilesDir(null);
      folder = new AppFolder(shared != null ? shared : getFilesDir());
    } catch (DafException error) {
      throw new IllegalStateException(error.getMessage(), error);
    }
    PowerManager power = (PowerManager) getSystemService(Context.POWER_SERVICE);
    controller =
        new RunController(
            folder,
            version(),
            Process.myPid(),
            NativeRun::open,
            () -> new Conditions(Compat.thermalStatus(power), power.isPowerSaveMode()),
            run -> {
              TrainingRun.Listener listener = serviceListener;
              if (listener != null) listener.onChange(run);
            });
  }

  static TrainingApp of(Context context) {
    return (TrainingApp) context.getApplicationContext();
  }

  AppFolder folder() {
    return folder;
  }

  RunController controller() {
    return controller;
  }

  void setServiceListener(TrainingRun.Listener listener) {
    serviceListener = listener;
  }

  String version() {
    try {
      return getPackageManager().getPackageInfo(getPackageName(), 0).versionName;
    } catch (PackageManager.NameNotFoundException error) {
      throw new AssertionError(error);
    }
  }

  @Override
  public void onTrimMemory(int level) {
    super.onTrimMemory(level);
    controller.trim(level);
  }
}
