package org.dafmobile.app;

import android.app.Activity;
import android.content.Intent;
import android.os.Bundle;
import android.widget.ArrayAdapter;
import android.widget.CheckBox;
import android.widget.Spinner;
import android.widget.TextView;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.dafmobile.core.Commands;
import org.dafmobile.core.DafException;
import org.dafmobile.core.NewRun;
import org.dafmobile.core.ProgramInfo;
import org.dafmobile.core.ReduceMode;
import org.dafmobile.core.Text;

/** A program's manifest, and the settings of a run with it. */
public final class ProgramActivity extends Activity {
  static final String EXTRA_PROGRAM = "program";

  private Path program;
  private List<Path> data;

  @Override
  protected void onCreate(Bundle state) {
    super.onCreate(state);
    Screens.setContent(this, R.layout.program);
    Path programs = TrainingApp.of(this).folder().programs();
    program = programs.resolve(String.valueOf(getIntent().getStringExtra(EXTRA_PROGRAM)));
    setTitle(program.getFileName().toString());
    data = ProgramInfo.listData(programs);
    Path example = ProgramInfo.exampleOf(program);
    List<String> names = new ArrayList<>();
    for (Path path : data) names.add(path.getFileName().toString());
    Spinner choice = spinner(R.id.data);
    choice.setAdapter(new ArrayAdapter<>(this, android.R.layout.simple_spinner_dropdown_item, names));
    if (Files.exists(example)) choice.setSelection(names.indexOf(example.getFileName().toString()));
    List<String> modes = new ArrayList<>();
    for (ReduceMode mode : ReduceMode.values()) modes.add(getString(Screens.reduceText(mode)));
    spinner(R.id.reduce).setAdapter(new ArrayAdapter<>(this, android.R.layout.simple_spinner_dropdown_item, modes));
    findViewById(R.id.start).setOnClickListener(view -> start());
    try {
      showManifest(ProgramInfo.read(program));
    } catch (DafException error) {
      say(Screens.errorText(this, error));
      findViewById(R.id.start).setEnabled(false);
    }
  }

  private void showManifest(ProgramInfo info) {
    ((TextView) findViewById(R.id.facts))
        .setText(getString(R.string.program_facts, info.model, info.batchSize, info.optimizer, info.activations));
    StringBuilder text = new StringBuilder();
    Long peak = info.predictedBytes.get("peak");
    if (peak != null) text.append(getString(R.string.predicted_peak, Text.bytes(peak)));
    for (Map.Entry<String, Long> part : info.predictedBytes.entrySet()) {
      if (part.getKey().equals("peak") || part.getValue() == 0) continue;
      text.append('\n').append(getString(R.string.predicted_part, part.getKey(), Text.bytes(part.getValue())));
    }
    ((TextView) findViewById(R.id.memory)).setText(text);
  }

  private void start() {
    TrainingApp app = TrainingApp.of(this);
    int chosen = spinner(R.id.data).getSelectedItemPosition();
    if (chosen < 0 || chosen >= data.size()) {
      say(getString(R.string.no_data));
      return;
    }
    try {
      long steps = number(R.id.steps, R.string.wrong_steps, false, 1, 1e12);
      if (steps == 0) throw new NumberFormatException(getString(R.string.wrong_steps));
      NewRun run = new NewRun(program, data.get(chosen), steps);
      run.budgetBytes = number(R.id.budget, R.string.wrong_budget, true, 0.001, 1e6);
      run.threads = (int) number(R.id.threads, R.string.wrong_threads, false, 1, 256);
      run.reduceMode = ReduceMode.values()[spinner(R.id.reduce).getSelectedItemPosition()];
      String id = run.write(app.folder(), app.version());
      boolean saver = ((CheckBox) findViewById(R.id.battery_saver)).isChecked();
      RunService.send(
          this,
          new Intent(Commands.START).putExtra(Commands.EXTRA_RUN, id).putExtra(Commands.EXTRA_BATTERY_SAVER, String.valueOf(saver)));
      startActivity(new Intent(this, RunActivity.class).putExtra(RunActivity.EXTRA_RUN, id));
    } catch (NumberFormatException error) {
      say(error.getMessage());
    } catch (DafException error) {
      say(Screens.errorText(this, error));
    }
  }

  /** 0 when the field is empty. */
  private long number(int field, int problem, boolean megabytes, double min, double max) {
    String text = ((TextView) findViewById(field)).getText().toString().trim();
    if (text.isEmpty()) return 0;
    try {
      double value = megabytes ? Double.parseDouble(text) : Long.parseLong(text);
      if (value >= min && value <= max) return (long) (megabytes ? value * 1e6 : value);
    } catch (NumberFormatException notANumber) {
      // said below
    }
    throw new NumberFormatException(getString(problem));
  }

  private Spinner spinner(int view) {
    return (Spinner) findViewById(view);
  }

  private void say(String text) {
    ((TextView) findViewById(R.id.problem)).setText(text);
  }
}
