package org.dafmobile.app;

import android.app.Notification;
import android.app.NotificationManager;
import android.content.Context;
import android.content.Intent;
import android.os.Build;
import android.os.PowerManager;
import org.dafmobile.core.Conditions;

/**
 * What Android has had only since API 24, by reflection: the check build (daf apk build) compiles against API 23, the
 * newest that a package registry has. All of it is public API, present on every device from the version named.
 */
final class Compat {
  static final String CHANNEL = "training";
  private static final int IMPORTANCE_LOW = 2;

  private Compat() {}

  /** NotificationChannel, API 26. */
  static void createChannel(Context context, String name) {
    try {
      Class<?> type = Class.forName("android.app.NotificationChannel");
      Object channel =
          type.getConstructor(String.class, CharSequence.class, int.class).newInstance(CHANNEL, name, IMPORTANCE_LOW);
      NotificationManager.class
          .getMethod("createNotificationChannel", type)
          .invoke(context.getSystemService(Context.NOTIFICATION_SERVICE), channel);
    } catch (ReflectiveOperationException error) {
      throw new AssertionError(error);
    }
  }

  /** Notification.Builder(Context, String), API 26. */
  static Notification.Builder newBuilder(Context context) {
    try {
      return Notification.Builder.class.getConstructor(Context.class, String.class).newInstance(context, CHANNEL);
    } catch (ReflectiveOperationException error) {
      throw new AssertionError(error);
    }
  }

  /** Context.startForegroundService, API 26. */
  static void startForegroundService(Context context, Intent intent) {
    try {
      Context.class.getMethod("startForegroundService", Intent.class).invoke(context, intent);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException("cannot start training in the background", error.getCause());
    }
  }

  /** PowerManager.getCurrentThermalStatus, API 29. */
  static int thermalStatus(PowerManager power) {
    if (Build.VERSION.SDK_INT < 29) return Conditions.UNKNOWN;
    try {
      return (Integer) PowerManager.class.getMethod("getCurrentThermalStatus").invoke(power);
    } catch (ReflectiveOperationException error) {
      return Conditions.UNKNOWN;
    }
  }
}
