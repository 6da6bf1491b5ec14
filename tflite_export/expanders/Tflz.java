import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.zip.CRC32;
import java.util.zip.DataFormatException;
import java.util.zip.Inflater;

/** Expands a shrunk TFLite file (docs/container.md). For Android and the JVM. */
public final class Tflz {
  private static final int CHUNK = 1 << 16;
  private static final int MAX_RANGES = 16384;

  private final DataInputStream in;
  private final byte[] chunk = new byte[CHUNK];
  private ByteBuffer table;
  private byte[] out;

  private Tflz(InputStream in) {
    this.in = new DataInputStream(in);
  }

  /**
   * Returns the file that was shrunk, byte for byte.
   *
   * @param limit the largest expanded size to accept, in bytes
   * @throws IOException if the container is damaged, truncated or too large
   */
  public static byte[] expand(InputStream in, int limit) throws IOException {
    try {
      return new Tflz(in).run(limit);
    } catch (EOFException e) {
      throw new IOException("Damaged container: it is truncated", e);
    } catch (DataFormatException e) {
      throw new IOException("Damaged container: " + e.getMessage(), e);
    }
  }

  private byte[] run(int limit) throws IOException, DataFormatException {
    ByteBuffer header = read(32);
    require(header.getInt() == 0x5A4C4654, "it does not begin with 'TFLZ'");
    require(header.getInt() == 1, "unknown version");
    long size = unsigned(header), crc = unsigned(header), count = unsigned(header);
    long rest = unsigned(header), restCrc = unsigned(header);
    require(count <= MAX_RANGES, "too many ranges");
    table = read(12 * (int) count);
    CRC32 headerCrc = new CRC32();
    headerCrc.update(header.array(), 0, 28);
    headerCrc.update(table.array());
    require(headerCrc.getValue() == unsigned(header), "wrong header CRC");
    require(size <= limit, "it expands to more than the limit");
    long end = 0, missing = size;
    while (table.hasRemaining()) {
      long offset = unsigned(table), length = unsigned(table), perByte = unsigned(table);
      require(perByte == 1 || perByte == 2 || perByte == 4, "unknown encoding");
      require(end <= offset && length > 0 && offset + length <= size, "wrong ranges");
      end = offset + length;
      missing -= length;
    }
    require(missing <= 1032 * rest, "its size is impossible");
    out = new byte[(int) size];
    inflate(rest, restCrc, (int) missing);
    for (int i = 0; i < count; i++) {
      expandRange(table.getInt(12 * i), table.getInt(12 * i + 4), table.getInt(12 * i + 8));
    }
    require(in.read() < 0, "bytes follow its end");
    CRC32 whole = new CRC32();
    whole.update(out);
    require(whole.getValue() == crc, "wrong CRC");
    return out;
  }

  /** Inflates the rest into the gaps between the ranges. */
  private void inflate(long unread, long crc, int missing) throws IOException, DataFormatException {
    Inflater inflater = new Inflater();
    CRC32 seen = new CRC32();
    for (int at = 0, next = 0; !inflater.finished(); ) {
      int stop = 12 * next < table.capacity() ? table.getInt(12 * next) : out.length;
      if (at == stop && missing > 0) {
        at = stop + table.getInt(12 * next++ + 4);
        continue;
      }
      if (inflater.needsInput() && unread > 0) {
        int n = (int) Math.min(unread, CHUNK);
        in.readFully(chunk, 0, n);
        seen.update(chunk, 0, n);
        inflater.setInput(chunk, 0, n);
        unread -= n;
      }
      // Beyond the last gap there is room for one byte, so as to see too many.
      int n = missing > 0 ? inflater.inflate(out, at, stop - at) : inflater.inflate(new byte[1]);
      require(n <= missing && (n > 0 || unread > 0 || inflater.finished()), "wrong length");
      at += n;
      missing -= n;
    }
    int left = inflater.getRemaining() + missing;
    inflater.end();
    require(left + unread == 0 && seen.getValue() == crc, "its deflated rest");
  }

  private void expandRange(int at, int length, int perByte) throws IOException {
    int width = 8 / perByte; // Bits per weight, and bytes per byte of signs.
    byte[] rows = new byte[256 * width];
    for (int i = 0; i < 256 * 8; i++) {
      int code = (i / 8 >> i % 8 & 1) == 1 ? 1 : (1 << width) - 1;
      rows[i / 8 * width + i % 8 / perByte] |= (byte) (code << i % perByte * width);
    }
    while (length > 0) {
      int count = Math.min((length + width - 1) / width, CHUNK), last = 0;
      in.readFully(chunk, 0, count);
      for (int i = 0; i < count; i++, at += last, length -= last) {
        last = Math.min(width, length);
        System.arraycopy(rows, (chunk[i] & 255) * width, out, at, last);
      }
      require((chunk[count - 1] & 255) >> last * perByte == 0, "unused bits are set");
    }
  }

  private ByteBuffer read(int count) throws IOException {
    byte[] bytes = new byte[count];
    in.readFully(bytes);
    return ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
  }

  private static long unsigned(ByteBuffer buffer) {
    return buffer.getInt() & 0xFFFFFFFFL;
  }

  private static void require(boolean condition, String problem) throws IOException {
    if (!condition) throw new IOException("Damaged container: " + problem);
  }
}
