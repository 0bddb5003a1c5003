package org.dafmobile.app;

import android.content.ContentProvider;
import android.content.ContentValues;
import android.database.Cursor;
import android.database.MatrixCursor;
import android.net.Uri;
import android.os.ParcelFileDescriptor;
import android.provider.OpenableColumns;
import java.io.File;
import java.io.FileNotFoundException;
import java.util.List;
import org.dafmobile.core.DafException;

/** Lets an app that the user shares a trace with read that trace: content://org.dafmobile.app.traces/RUN/NAME.trace */
public final class TraceProvider extends ContentProvider {
  private static final String AUTHORITY = "org.dafmobile.app.traces";

  static Uri uriOf(String run, String name) {
    return new Uri.Builder().scheme("content").authority(AUTHORITY).appendPath(run).appendPath(name).build();
  }

  private File fileOf(Uri uri) throws FileNotFoundException {
    List<String> parts = uri.getPathSegments();
    try {
      if (parts.size() != 2 || !parts.get(1).matches("run(-[0-9]+)?\\.trace")) throw new FileNotFoundException(uri.toString());
      return TrainingApp.of(getContext())
          .folder()
          .input("the trace", "runs/" + parts.get(0) + "/" + parts.get(1), DafException.DATA)
          .toFile();
    } catch (DafException error) {
      throw new FileNotFoundException(error.getMessage());
    }
  }

  @Override
  public ParcelFileDescriptor openFile(Uri uri, String mode) throws FileNotFoundException {
    if (!"r".equals(mode)) throw new FileNotFoundException("traces can only be read");
    return ParcelFileDescriptor.open(fileOf(uri), ParcelFileDescriptor.MODE_READ_ONLY);
  }

  @Override
  public Cursor query(Uri uri, String[] projection, String selection, String[] arguments, String order) {
    MatrixCursor rows = new MatrixCursor(new String[] {OpenableColumns.DISPLAY_NAME, OpenableColumns.SIZE});
    try {
      File file = fileOf(uri);
      rows.addRow(new Object[] {uri.getPathSegments().get(0) + "-" + file.getName(), file.length()});
    } catch (FileNotFoundException error) {
      return rows;
    }
    return rows;
  }

  @Override
  public boolean onCreate() {
    return true;
  }

  @Override
  public String getType(Uri uri) {
    return "application/octet-stream";
  }

  @Override
  public Uri insert(Uri uri, ContentValues values) {
    throw new UnsupportedOperationException();
  }

  @Override
  public int delete(Uri uri, String selection, String[] arguments) {
    throw new UnsupportedOperationException();
  }

  @Override
  public int update(Uri uri, ContentValues values, String selection, String[] arguments) {
    throw new UnsupportedOperationException();
  }
}
