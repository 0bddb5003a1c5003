package org.dafmobile.app;

import android.content.Context;
import android.graphics.Canvas;
import android.graphics.Paint;
import android.graphics.Path;
import android.util.AttributeSet;
import android.util.TypedValue;
import android.view.View;
import java.util.List;
import java.util.Locale;
import org.dafmobile.core.ChartGeometry;
import org.dafmobile.core.Series;
import org.dafmobile.core.Text;

/** Memory by part, as bands on each other, or the loss, as a line. Where things lie is {@link ChartGeometry}'s matter. */
public final class ChartView extends View {
  private static final int TICKS = 4;

  private final Paint ink = new Paint(Paint.ANTI_ALIAS_FLAG);
  private final Paint axis = new Paint(Paint.ANTI_ALIAS_FLAG);
  private Series series;
  private int[] colors = new int[0];
  private boolean isLoss;

  public ChartView(Context context, AttributeSet attributes) {
    super(context, attributes);
    axis.setColor(getResources().getColor(R.color.chart_axis, context.getTheme()));
    axis.setTextSize(TypedValue.applyDimension(TypedValue.COMPLEX_UNIT_SP, 12, getResources().getDisplayMetrics()));
  }

  void showBands(Series memory, int[] partColors) {
    show(memory, partColors, false);
  }

  void showLine(Series loss, int color) {
    show(loss, new int[] {color}, true);
  }

  private void show(Series shown, int[] shownColors, boolean loss) {
    series = shown;
    colors = shownColors;
    isLoss = loss;
    setContentDescription(spoken());
    invalidate();
  }

  private String spoken() {
    double[] x = series.x();
    String title = getResources().getString(isLoss ? R.string.chart_loss : R.string.chart_memory);
    if (x.length == 0) return getResources().getString(R.string.chart_empty, title);
    double last = 0;
    for (int i = 0; i < colors.length; ++i) last += series.values(i)[x.length - 1];
    return getResources()
        .getString(
            isLoss ? R.string.chart_loss_spoken : R.string.chart_memory_spoken, steps(x[0]), steps(x[x.length - 1]), label(last));
  }

  private String label(double value) {
    return isLoss ? Text.loss(value) : Text.bytes((long) value);
  }

  private static String steps(double value) {
    return String.format(Locale.ROOT, "%.0f", value);
  }

  @Override
  protected void onDraw(Canvas canvas) {
    super.onDraw(canvas);
    if (series == null) return;
    double[] x = series.x();
    if (x.length == 0) return;
    double[][] values = new double[colors.length][];
    for (int i = 0; i < values.length; ++i) values[i] = series.values(i);
    double lowest = isLoss ? Double.MAX_VALUE : 0, highest = 0;
    for (int i = 0; i < x.length; ++i) {
      double sum = 0;
      for (double[] value : values) sum += value[Math.min(i, value.length - 1)]; // a step may have come in between
      lowest = Math.min(lowest, sum);
      highest = Math.max(highest, sum);
    }
    float line = axis.getTextSize();
    float left = axis.measureText("999.9 MB") + line / 2;
    ChartGeometry chart =
        new ChartGeometry(left, line, getWidth() - line, getHeight() - 2 * line, x[0], x[x.length - 1], lowest, highest);
    if (isLoss) {
      drawLine(canvas, chart.line(x, padded(values[0], x.length)));
    } else {
      for (int i = 0; i < values.length; ++i) values[i] = padded(values[i], x.length);
      drawBands(canvas, chart.bands(x, values));
    }
    for (ChartGeometry.Tick tick : chart.yTicks(TICKS)) {
      canvas.drawText(label(tick.value), 0, tick.at + line / 3, axis);
      canvas.drawLine(left, tick.at, getWidth() - line, tick.at, axis);
    }
    for (ChartGeometry.Tick tick : chart.xTicks(TICKS)) {
      String text = steps(tick.value);
      canvas.drawText(text, tick.at - axis.measureText(text) / 2, getHeight() - line / 2, axis);
    }
  }

  private static double[] padded(double[] values, int size) {
    return values.length == size ? values : java.util.Arrays.copyOf(values, size);
  }

  private void drawLine(Canvas canvas, float[] points) {
    ink.setStyle(Paint.Style.STROKE);
    ink.setStrokeWidth(axis.getTextSize() / 6);
    ink.setColor(colors[0]);
    Path path = new Path();
    for (int i = 0; i < points.length; i += 2) {
      if (i == 0) path.moveTo(points[0], points[1]);
      else path.lineTo(points[i], points[i + 1]);
    }
    canvas.drawPath(path, ink);
  }

  private void drawBands(Canvas canvas, List<float[]> outlines) {
    ink.setStyle(Paint.Style.FILL);
    for (int band = 0; band < outlines.size(); ++band) {
      float[] points = outlines.get(band);
      Path path = new Path();
      path.moveTo(points[0], points[1]);
      for (int i = 2; i < points.length; i += 2) path.lineTo(points[i], points[i + 1]);
      path.close();
      ink.setColor(colors[Math.min(band, colors.length - 1)]);
      canvas.drawPath(path, ink);
    }
  }
}
