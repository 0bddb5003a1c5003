package org.dafmobile.app;

import android.app.Notification;
import android.app.NotificationManager;
import android.app.PendingIntent;
import android.app.Service;
import android.content.Context;
import android.content.Intent;
import android.graphics.drawable.Icon;
import android.os.Handler;
import android.os.HandlerThread;
import android.os.IBinder;
import android.os.Looper;
import android.util.Log;
import org.dafmobile.core.Commands;
import org.dafmobile.core.DafException;
import org.dafmobile.core.RunController;
import org.dafmobile.core.RunState;
import org.dafmobile.core.Text;
import org.dafmobile.core.TrainingRun;

/**
 * Keeps the process in the foreground while a run goes on, and takes commands: from the app's own screens and
 * notification, and from the shell (the manifest guards the service). What they mean is {@link RunController}'s matter.
 */
public final class RunService extends Service {
  private static final String TAG = "daf";
  private static final int NOTIFICATION = 1;
  private static final long TICK_MS = 1000;

  private final Handler main = new Handler(Looper.getMainLooper());
  private final HandlerThread clock = new HandlerThread("daf-clock"); // a tick writes a file: not for the main thread
  private Handler ticks;
  private final Runnable tick =
      new Runnable() {
        @Override
        public void run() {
          controller().tick();
          if (controller().isActive()) ticks.postDelayed(this, TICK_MS);
        }
      };

  private RunController controller() {
    return TrainingApp.of(this).controller();
  }

  static void send(Context context, Intent intent) {
    Compat.startForegroundService(context, intent.setClass(context, RunService.class));
  }

  @Override
  public void onCreate() {
    super.onCreate();
    clock.start();
    ticks = new Handler(clock.getLooper());
    TrainingApp.of(this).setServiceListener(run -> main.post(() -> show(run)));
  }

  @Override
  public int onStartCommand(Intent intent, int flags, int startId) {
    try {
      startForeground(NOTIFICATION, notification(controller().current())); // at once: the system waits only for seconds
    } catch (IllegalStateException error) { // not from the background, in newer Androids: the main screen offers to continue
      Log.w(TAG, error.toString());
      stopSelf();
      return START_NOT_STICKY;
    }
    try {
      obey(intent);
    } catch (DafException error) {
      Log.e(TAG, error.getMessage());
    }
    ticks.removeCallbacks(tick);
    if (!controller().isActive()) {
      end();
      return START_NOT_STICKY;
    }
    ticks.post(tick);
    return START_STICKY; // when the process is killed, it comes back without an intent, and continues
  }

  private void obey(Intent intent) throws DafException {
    if (intent == null) {
      controller().continuePending();
    } else {
      Commands.obey(controller(), intent.getAction(), intent::getStringExtra);
    }
  }

  private void show(TrainingRun run) {
    NotificationManager manager = (NotificationManager) getSystemService(NOTIFICATION_SERVICE);
    if (manager != null) manager.notify(NOTIFICATION, notification(run));
    if (run.state().phase().isOver()) end();
  }

  /** What the notification says last stays. */
  private void end() {
    ticks.removeCallbacks(tick);
    stopForeground(controller().current() == null);
    stopSelf();
  }

  private Notification notification(TrainingRun run) {
    Notification.Builder builder = Compat.newBuilder(this).setSmallIcon(R.drawable.ic_notification).setOnlyAlertOnce(true);
    if (run == null) return builder.setContentTitle(getString(R.string.state_starting)).build();
    RunState.Phase phase = run.state().phase();
    builder
        .setContentTitle(getString(Screens.stateText(phase)))
        .setContentText(
            run.error() != null
                ? run.error().getMessage()
                : getString(
                    R.string.notification_text, run.history().step(), run.plan().request.totalSteps, Text.loss(run.history().lastLoss())))
        .setOngoing(!phase.isOver())
        .setContentIntent(
            PendingIntent.getActivity(
                this,
                0,
                new Intent(this, RunActivity.class).putExtra(RunActivity.EXTRA_RUN, run.id()),
                PendingIntent.FLAG_IMMUTABLE | PendingIntent.FLAG_UPDATE_CURRENT));
    if (!phase.isOver() && phase != RunState.Phase.STOPPING) {
      boolean held = run.state().pauses().contains(RunState.Pause.USER);
      builder.addAction(action(held ? R.string.resume : R.string.pause, held ? Commands.RESUME : Commands.PAUSE));
      builder.addAction(action(R.string.stop, Commands.STOP));
    }
    return builder.build();
  }

  private Notification.Action action(int text, String command) {
    PendingIntent intent =
        PendingIntent.getService(this, 0, new Intent(command, null, this, RunService.class), PendingIntent.FLAG_IMMUTABLE);
    return new Notification.Action.Builder(Icon.createWithResource(this, R.drawable.ic_notification), getString(text), intent).build();
  }

  @Override
  public void onDestroy() {
    TrainingApp.of(this).setServiceListener(null);
    clock.quit();
    super.onDestroy();
  }

  @Override
  public IBinder onBind(Intent intent) {
    return null;
  }
}
