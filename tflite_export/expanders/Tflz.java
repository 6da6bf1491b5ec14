import java.io.*;
import java.util.zip.*;

/** Expands a container (docs/container.md). For Android and the JVM. */
public final class Tflz {
  private static final int CHUNK = 1 << 16, MAX_RANGES = 16384;

  /**
   * Returns the file that was shrunk, of at most `limit` bytes.
   * @throws IOException if the container is damaged, truncated or too large
   */
  public static byte[] expand(InputStream source, int limit) throws IOException {
    try {
      return read(source, limit);
    } catch (EOFException | ZipException e) {
      String problem = e instanceof EOFException ? "it is truncated" : e.getMessage();
      throw new IOException("Damaged container: " + problem, e);
    } catch (OutOfMemoryError e) {
      throw new IOException("File too large: out of memory", e);
    }
  }

  private static byte[] read(InputStream source, int limit) throws IOException {
    InputStream buffered = new BufferedInputStream(source, CHUNK);
    CRC32 seen = new CRC32();
    DataInputStream in = new DataInputStream(new CheckedInputStream(buffered, seen));
    long magic = unsigned(in), version = unsigned(in), size = unsigned(in), crc = unsigned(in);
    long count = unsigned(in), restSize = unsigned(in), restCrc = unsigned(in);
    long headerCrc = unsigned(new DataInputStream(buffered)); // Does not count itself.
    if (magic != 0x5A4C4654) throw new IOException("Not a container: no 'TFLZ' at its start");
    if (version != 1) throw new IOException("Unknown container version: " + version);
    require(count <= MAX_RANGES, "it lists too many ranges");
    long[] table = new long[3 * (int) count];
    for (int i = 0; i < table.length; i++) table[i] = unsigned(in);
    require(seen.getValue() == headerCrc, "wrong header CRC");
    if (size > limit) throw new IOException("File too large: " + size + " bytes, over " + limit);
    long end = 0, missing = size;
    for (int i = 0; i < table.length; i += 3) {
      long offset = table[i], length = table[i + 1], perByte = table[i + 2];
      require(perByte == 1 || perByte == 2 || perByte == 4, "unknown encoding");
      require(end <= offset && length > 0 && offset + length <= size, "wrong ranges");
      end = offset + length;
      missing -= length;
    }
    require(missing <= 1032 * restSize, "its size is impossible");
    byte[] model = new byte[(int) size];
    seen.reset();
    Rest rest = new Rest(in, restSize);
    DataInputStream gaps = new DataInputStream(rest);
    int at = 0;
    for (int i = 0; i < table.length; i += 3) {
      gaps.readFully(model, at, (int) table[i] - at);
      at = (int) (table[i] + table[i + 1]);
    }
    gaps.readFully(model, at, model.length - at);
    require(rest.isAtEnd() && seen.getValue() == restCrc, "its deflated rest is damaged");
    byte[] signs = new byte[CHUNK];
    for (int i = 0; i < table.length; i += 3)
      expandRange(in, signs, model, (int) table[i], (int) table[i + 1], (int) table[i + 2]);
    require(in.read() < 0, "bytes follow its end");
    seen.reset();
    seen.update(model);
    require(seen.getValue() == crc, "wrong CRC");
    return model;
  }

  /** The bytes outside of the ranges. */
  private static final class Rest extends InflaterInputStream {
    private long unread;
    Rest(InputStream in, long size) {
      super(in, new Inflater(), CHUNK);
      unread = size;
    }

    @Override
    protected void fill() throws IOException {
      len = in.read(buf, 0, (int) Math.min(buf.length, unread));
      if (len <= 0) throw new EOFException();
      unread -= len;
      inf.setInput(buf, 0, len);
    }

    boolean isAtEnd() throws IOException {
      boolean atEnd = read() < 0 && inf.finished() && inf.getRemaining() == 0 && unread == 0;
      inf.end();
      return atEnd;
    }
  }

  /** Expands sign bits to weights of +1 and -1, one to four in each byte of the model. */
  private static void expandRange(
      DataInputStream in, byte[] signs, byte[] model, int at, int length, int perByte)
      throws IOException {
    byte[] codes = new byte[1 << perByte];
    int width = 8 / perByte; // Bits per weight, and bytes of the model per byte of signs.
    for (int i = 0; i < codes.length * perByte; i++) {
      int code = (i / perByte >> i % perByte & 1) == 1 ? 1 : (1 << width) - 1;
      codes[i / perByte] |= (byte) (code << i % perByte * width);
    }
    for (int stop = at + length; at < stop; ) {
      int count = Math.min((stop - at - 1) / width + 1, CHUNK);
      in.readFully(signs, 0, count);
      for (int i = 0; i < count; i++) {
        int bits = signs[i] & 255;
        for (int j = 0; j < width && at < stop; j++, bits >>= perByte)
          model[at++] = codes[bits & codes.length - 1];
        require(bits == 0, "unused bits are set");
      }
    }
  }

  private static long unsigned(DataInputStream in) throws IOException {
    return Integer.reverseBytes(in.readInt()) & 0xFFFFFFFFL;
  }

  private static void require(boolean condition, String problem) throws IOException {
    if (!condition) throw new IOException("Damaged container: " + problem);
  }
}
