package org.dafmobile.app;

import android.app.Notification;
import android.app.NotificationManager;
import android.app.PendingIntent;
import android.app.Service;
import android.content.Context;
import android.content.Intent;
import android.graphics.drawable.Icon;
import android.os.Handler;
import android.os.IBinder;
import android.os.Looper;
import android.util.Log;
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
  /** Of the shell: --es request runs/ID/request.json. */
  static final String RUN = "org.dafmobile.app.RUN";
  /** --es run ID; without it, whichever runs. */
  static final String STOP = "org.dafmobile.app.STOP";
  static final String PAUSE = "org.dafmobile.app.PAUSE";
  static final String RESUME = "org.dafmobile.app.RESUME";
  /** Of the app's own screens. */
  static final String START = "org.dafmobile.app.START";
  static final String CONTINUE = "org.dafmobile.app.CONTINUE";
  static final String EXTRA_REQUEST = "request";
  static final String EXTRA_RUN = "run";
  static final String EXTRA_BATTERY_SAVER = "battery_saver";

  private static final String TAG = "daf";
  private static final int NOTIFICATION = 1;
  private static final long TICK_MS = 1000;

  private final Handler main = new Handler(Looper.getMainLooper());
  private final Runnable tick =
      new Runnable() {
        @Override
        public void run() {
          controller().tick();
          if (controller().isActive()) main.postDelayed(this, TICK_MS);
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
    TrainingApp.of(this).setServiceListener(run -> main.post(() -> show(run)));
  }

  @Override
  public int onStartCommand(Intent intent, int flags, int startId) {
    startForeground(NOTIFICATION, notification(controller().current())); // at once: the system waits only for seconds
    try {
      obey(intent);
    } catch (DafException error) {
      Log.e(TAG, error.getMessage());
    }
    main.removeCallbacks(tick);
    if (!controller().isActive()) {
      end();
      return START_NOT_STICKY;
    }
    main.post(tick);
    return START_STICKY; // when the process is killed, it comes back without an intent, and continues
  }

  private void obey(Intent intent) throws DafException {
    String action = intent == null ? CONTINUE : String.valueOf(intent.getAction());
    switch (action) {
      case RUN:
        controller().startForHost(String.valueOf(intent.getStringExtra(EXTRA_REQUEST)));
        break;
      case START:
        controller().startForUser(intent.getStringExtra(EXTRA_RUN), intent.getBooleanExtra(EXTRA_BATTERY_SAVER, false));
        break;
      case STOP:
        controller().stop(intent.getStringExtra(EXTRA_RUN));
        break;
      case PAUSE:
        controller().pause();
        break;
      case RESUME:
        controller().resume();
        break;
      case CONTINUE:
        controller().continuePending();
        break;
      default:
        Log.w(TAG, "an unknown command was passed over");
    }
  }

  private void show(TrainingRun run) {
    NotificationManager manager = (NotificationManager) getSystemService(NOTIFICATION_SERVICE);
    if (manager != null) manager.notify(NOTIFICATION, notification(run));
    if (run.state().phase().isOver()) end();
  }

  /** What the notification says last stays. */
  private void end() {
    main.removeCallbacks(tick);
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
      builder.addAction(action(held ? R.string.resume : R.string.pause, held ? RESUME : PAUSE));
      builder.addAction(action(R.string.stop, STOP));
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
    main.removeCallbacks(tick);
    super.onDestroy();
  }

  @Override
  public IBinder onBind(Intent intent) {
    return null;
  }
}
