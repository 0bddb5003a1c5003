package org.dafmobile.app;

import android.app.Activity;
import android.content.ClipData;
import android.content.Intent;
import android.content.pm.PackageManager;
import android.database.Cursor;
import android.net.Uri;
import android.os.Build;
import android.os.Bundle;
import android.provider.OpenableColumns;
import android.view.View;
import android.widget.Button;
import android.widget.LinearLayout;
import android.widget.Toast;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.dafmobile.core.Commands;
import org.dafmobile.core.DafException;
import org.dafmobile.core.Imports;
import org.dafmobile.core.PendingRun;
import org.dafmobile.core.ProgramInfo;

/** Programs and runs in the app's folder; takes files that are opened with the app. */
public final class MainActivity extends Activity {
  private static final int IMPORT = 1;

  @Override
  protected void onCreate(Bundle state) {
    super.onCreate(state);
    Screens.setContent(this, R.layout.main);
    findViewById(R.id.import_files).setOnClickListener(view -> chooseFiles());
    findViewById(R.id.continue_run).setOnClickListener(view -> continueRun());
    if (state == null) {
      askForNotifications();
      open(getIntent());
    }
  }

  private void askForNotifications() {
    String permission = "android.permission.POST_NOTIFICATIONS"; // since API 33
    if (Build.VERSION.SDK_INT >= 33 && checkSelfPermission(permission) != PackageManager.PERMISSION_GRANTED) {
      requestPermissions(new String[] {permission}, 0);
    }
  }

  @Override
  protected void onNewIntent(Intent intent) {
    super.onNewIntent(intent);
    open(intent);
  }

  @Override
  protected void onResume() {
    super.onResume();
    refresh();
  }

  private void refresh() {
    TrainingApp app = TrainingApp.of(this);
    List<Path> programs = ProgramInfo.list(app.folder().programs());
    LinearLayout list = (LinearLayout) findViewById(R.id.programs);
    list.removeAllViews();
    for (Path program : programs) {
      String name = program.getFileName().toString();
      list.addView(entry(name, new Intent(this, ProgramActivity.class).putExtra(ProgramActivity.EXTRA_PROGRAM, name)));
    }
    findViewById(R.id.no_programs).setVisibility(programs.isEmpty() ? View.VISIBLE : View.GONE);

    String[] names = new File(app.folder().root().toFile(), "runs").list();
    List<String> runs = names == null ? new ArrayList<>() : Arrays.asList(names);
    list = (LinearLayout) findViewById(R.id.runs);
    list.removeAllViews();
    for (String run : runs) list.addView(entry(run, new Intent(this, RunActivity.class).putExtra(RunActivity.EXTRA_RUN, run)));
    findViewById(R.id.no_runs).setVisibility(runs.isEmpty() ? View.VISIBLE : View.GONE);
    boolean cutOff = !app.controller().isActive() && new PendingRun(app.folder()).get() != null;
    findViewById(R.id.continue_run).setVisibility(cutOff ? View.VISIBLE : View.GONE);
  }

  private View entry(String text, Intent target) {
    Button button = new Button(this);
    button.setText(text);
    button.setAllCaps(false);
    button.setMinHeight((int) (48 * getResources().getDisplayMetrics().density));
    button.setOnClickListener(view -> startActivity(target));
    return button;
  }

  private void continueRun() {
    String id = new PendingRun(TrainingApp.of(this).folder()).get();
    RunService.send(this, new Intent(Commands.CONTINUE));
    if (id != null) startActivity(new Intent(this, RunActivity.class).putExtra(RunActivity.EXTRA_RUN, id));
  }

  private void chooseFiles() {
    Intent intent = new Intent(Intent.ACTION_OPEN_DOCUMENT).addCategory(Intent.CATEGORY_OPENABLE).setType("*/*");
    startActivityForResult(intent.putExtra(Intent.EXTRA_ALLOW_MULTIPLE, true), IMPORT);
  }

  @Override
  protected void onActivityResult(int request, int result, Intent data) {
    if (request != IMPORT || result != RESULT_OK || data == null) return;
    ClipData several = data.getClipData();
    List<Uri> files = new ArrayList<>();
    if (several == null) {
      files.add(data.getData());
    } else {
      for (int i = 0; i < several.getItemCount(); ++i) files.add(several.getItemAt(i).getUri());
    }
    importFiles(files);
  }

  private void open(Intent intent) {
    if (Intent.ACTION_VIEW.equals(intent.getAction()) && intent.getData() != null) importFiles(Arrays.asList(intent.getData()));
  }

  private void importFiles(List<Uri> files) {
    new Thread(
            () -> {
              for (Uri file : files) {
                String said;
                try {
                  said = getString(R.string.imported, importFile(file).getFileName());
                } catch (DafException error) {
                  said = Screens.errorText(this, error);
                }
                String text = said;
                runOnUiThread(
                    () -> {
                      Toast.makeText(this, text, Toast.LENGTH_LONG).show();
                      refresh();
                    });
              }
            })
        .start();
  }

  private Path importFile(Uri file) throws DafException {
    try (InputStream content = getContentResolver().openInputStream(file)) {
      if (content == null) throw new IOException("it is gone");
      return Imports.copy(TrainingApp.of(this).folder(), nameOf(file), content);
    } catch (IOException | SecurityException error) {
      throw new DafException(DafException.DATA, "cannot import a file: " + error.getMessage() + "; choose it again");
    }
  }

  private String nameOf(Uri file) {
    try (Cursor row = getContentResolver().query(file, new String[] {OpenableColumns.DISPLAY_NAME}, null, null, null)) {
      if (row != null && row.moveToFirst() && !row.isNull(0)) return row.getString(0);
    }
    return file.getLastPathSegment();
  }
}
