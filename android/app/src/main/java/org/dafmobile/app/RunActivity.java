package org.dafmobile.app;

import android.app.Activity;
import android.content.Intent;
import android.content.res.TypedArray;
import android.graphics.Color;
import android.net.Uri;
import android.os.Bundle;
import android.os.Handler;
import android.os.Looper;
import android.text.SpannableStringBuilder;
import android.text.Spanned;
import android.text.style.ForegroundColorSpan;
import android.view.View;
import android.widget.Button;
import android.widget.TextView;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.dafmobile.core.Commands;
import org.dafmobile.core.Conditions;
import org.dafmobile.core.DafException;
import org.dafmobile.core.History;
import org.dafmobile.core.RunPlan;
import org.dafmobile.core.RunState;
import org.dafmobile.core.Text;
import org.dafmobile.core.TrainingRun;

/** A run: live while it goes on, from its trace afterwards. Holds nothing itself, so a rotation costs nothing. */
public final class RunActivity extends Activity {
  static final String EXTRA_RUN = "run";
  private static final long REDRAW_MS = 500;

  private final Handler main = new Handler(Looper.getMainLooper());
  private final Runnable redraw = this::redraw;
  private String id;
  private volatile History fromFiles; // of a run that this process has not made

  @Override
  protected void onCreate(Bundle state) {
    super.onCreate(state);
    Screens.setContent(this, R.layout.run);
    show(getIntent());
    findViewById(R.id.pause).setOnClickListener(view -> RunService.send(this, new Intent(isHeld() ? Commands.RESUME : Commands.PAUSE)));
    findViewById(R.id.stop)
        .setOnClickListener(view -> RunService.send(this, new Intent(Commands.STOP).putExtra(Commands.EXTRA_RUN, id)));
    findViewById(R.id.share).setOnClickListener(view -> share());
  }

  @Override
  protected void onNewIntent(Intent intent) {
    super.onNewIntent(intent);
    setIntent(intent);
    show(intent);
  }

  private void show(Intent intent) {
    id = String.valueOf(intent.getStringExtra(EXTRA_RUN));
    setTitle(id);
    ((TextView) findViewById(R.id.legend)).setText(legend());
    fromFiles = null;
    if (run() == null) new Thread(this::readTraces).start();
  }

  @Override
  protected void onStart() {
    super.onStart();
    redraw();
  }

  @Override
  protected void onStop() {
    main.removeCallbacks(redraw);
    super.onStop();
  }

  /** Null when this process has not made it. */
  private TrainingRun run() {
    TrainingRun current = TrainingApp.of(this).controller().current();
    return current != null && current.id().equals(id) ? current : null;
  }

  private boolean isHeld() {
    TrainingRun run = run();
    return run != null && run.state().pauses().contains(RunState.Pause.USER);
  }

  private Path trace(int part) {
    try {
      return RunPlan.partOf(TrainingApp.of(this).folder().run(id).resolve("run.trace"), part);
    } catch (DafException error) {
      return null;
    }
  }

  private void readTraces() {
    History history = new History();
    try {
      for (int part = 1; trace(part) != null && Files.exists(trace(part)); ++part) history.addFile(trace(part));
    } catch (IOException error) {
      // What was read is shown.
    }
    fromFiles = history;
    main.post(redraw);
  }

  private void redraw() {
    main.removeCallbacks(redraw);
    TrainingRun run = run();
    History history = run != null ? run.history() : fromFiles;
    boolean isOver = run == null || run.state().phase().isOver();
    setText(R.id.state, run == null ? getString(R.string.state_cut_off) : stateText(run));
    if (history != null) {
      long steps = run != null ? run.plan().request.totalSteps : history.step();
      setText(R.id.progress, getString(R.string.progress, history.step(), steps, Text.loss(history.lastLoss())));
      setText(R.id.memory, getString(R.string.memory_line, Text.bytes(history.heldBytes()), Text.bytes(history.peakRssBytes())));
      String fallback = history.reduceFallback();
      setText(R.id.fallback, fallback == null ? "" : getString(R.string.reduce_fallback, fallback));
      chart(R.id.memory_chart).showBands(history.memory, colors());
      chart(R.id.loss_chart).showLine(history.loss, getResources().getColor(R.color.chart_loss, getTheme()));
    }
    Conditions conditions = run == null ? null : run.conditions();
    setText(
        R.id.conditions,
        conditions == null
            ? ""
            : getString(
                R.string.conditions_line, conditions.thermalName(), getString(conditions.batterySaver ? R.string.on : R.string.off)));
    setText(R.id.error, run != null && run.error() != null ? Screens.errorText(this, run.error()) : "");
    ((Button) findViewById(R.id.pause)).setText(isHeld() ? R.string.resume : R.string.pause);
    findViewById(R.id.pause).setVisibility(isOver ? View.GONE : View.VISIBLE);
    findViewById(R.id.stop).setVisibility(isOver ? View.GONE : View.VISIBLE);
    if (run == null || !isOver) main.postDelayed(redraw, REDRAW_MS); // it may be about to begin
  }

  private String stateText(TrainingRun run) {
    if (run.state().pauses().contains(RunState.Pause.HEAT)) return getString(R.string.paused_by_heat);
    if (run.state().pauses().contains(RunState.Pause.BATTERY_SAVER)) return getString(R.string.paused_by_battery_saver);
    return getString(Screens.stateText(run.state().phase()));
  }

  /** A text that does not change is not set: TalkBack would read it again. */
  private void setText(int view, String text) {
    TextView target = (TextView) findViewById(view);
    if (!target.getText().toString().equals(text)) target.setText(text);
  }

  private ChartView chart(int view) {
    return (ChartView) findViewById(view);
  }

  private int[] colors() {
    TypedArray array = getResources().obtainTypedArray(R.array.chart_parts);
    int[] colors = new int[array.length()];
    for (int i = 0; i < colors.length; ++i) colors[i] = array.getColor(i, Color.GRAY);
    array.recycle();
    return colors;
  }

  private CharSequence legend() {
    SpannableStringBuilder text = new SpannableStringBuilder();
    int[] colors = colors();
    for (int i = 0; i < History.PARTS.length; ++i) {
      int start = text.length();
      text.append("\u25A0 ");
      text.setSpan(new ForegroundColorSpan(colors[i]), start, text.length(), Spanned.SPAN_EXCLUSIVE_EXCLUSIVE);
      text.append(History.PARTS[i]).append("   ");
    }
    return text;
  }

  private void share() {
    int last = 1;
    while (trace(last + 1) != null && Files.exists(trace(last + 1))) ++last;
    if (trace(last) == null || !Files.exists(trace(last))) return;
    Uri uri = TraceProvider.uriOf(id, trace(last).getFileName().toString());
    Intent send =
        new Intent(Intent.ACTION_SEND)
            .setType("application/octet-stream")
            .putExtra(Intent.EXTRA_STREAM, uri)
            .addFlags(Intent.FLAG_GRANT_READ_URI_PERMISSION);
    send.setClipData(android.content.ClipData.newRawUri(null, uri));
    startActivity(Intent.createChooser(send, getString(R.string.share_trace)));
  }
}
