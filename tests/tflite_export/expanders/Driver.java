import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;

/** Does what driver.c does. The memory is all that was allocated, freed or not. */
public final class Driver {
  private static final com.sun.management.ThreadMXBean THREADS =
      (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();

  public static void main(String[] args) throws IOException {
    ByteBuffer in = ByteBuffer.wrap(Files.readAllBytes(Paths.get(args[0])));
    in.order(ByteOrder.LITTLE_ENDIAN);
    int limit = Integer.parseInt(args[2]);
    try (RandomAccessFile out = new RandomAccessFile(args[1], "rw")) {
      while (in.hasRemaining()) {
        byte[] container = new byte[in.getInt()];
        in.get(container);
        boolean expanded = true;
        byte[] answer;
        long before = allocated(), start = THREADS.getCurrentThreadCpuTime();
        try {
          answer = Tflz.expand(new ByteArrayInputStream(container), limit);
        } catch (IOException e) {
          answer = e.toString().getBytes(StandardCharsets.UTF_8);
          expanded = false;
        }
        long microseconds = (THREADS.getCurrentThreadCpuTime() - start) / 1000;
        ByteBuffer head = ByteBuffer.allocate(13).order(ByteOrder.LITTLE_ENDIAN);
        head.put((byte) (expanded ? 1 : 0)).putInt((int) (allocated() - before));
        out.write(head.putInt((int) microseconds).putInt(answer.length).array());
        out.write(answer);
      }
    }
  }

  private static long allocated() {
    return THREADS.getThreadAllocatedBytes(Thread.currentThread().getId());
  }
}
