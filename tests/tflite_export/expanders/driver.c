/* Expands each container of a file, for tests/tflite_export/test_expanders.py.
 *
 * Reads (size, bytes) of each container from argv[1]. Writes to argv[2]: 1 and
 * the model, or 0 and the problem: memory, microseconds, size, bytes. */
#include <stdio.h>
#include <time.h>
#include "tflz.h"

typedef struct {
  const uint8_t *at;
  size_t left;
} source;

static size_t read_source(void *context, void *to, size_t count) {
  source *from = (source *)context;
  size_t n = count < from->left ? count : from->left;
  if (n > 0) memcpy(to, from->at, n);
  from->at += n;
  from->left -= n;
  return n;
}

/* The most memory that the process has had so far, in bytes. */
static uint32_t peak(void) {
  FILE *status = fopen("/proc/self/status", "r");
  char line[256];
  unsigned long kilobytes = 0;
  while (status && fgets(line, sizeof line, status))
    if (sscanf(line, "VmHWM: %lu", &kilobytes) == 1) break;
  if (status) fclose(status);
  return (uint32_t)kilobytes * 1024;
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  FILE *in = fopen(argv[1], "rb"), *out = fopen(argv[2], "wb");
  size_t limit = strtoul(argv[3], NULL, 10), size;
  uint32_t length;
  if (!in || !out) return 2;
  while (fread(&length, 4, 1, in) == 1) {
    uint8_t *content = (uint8_t *)malloc(length + 1), *model = NULL;
    if (!content || fread(content, 1, length, in) != length) return 2;
    source from = {content, length};
    uint32_t before = peak();
    clock_t start = clock();
    const char *problem = tflz_expand(read_source, &from, limit, &model, &size);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    if (problem) size = strlen(problem);
    uint32_t numbers[] = {peak() - before, (uint32_t)(1e6 * seconds), (uint32_t)size};
    fputc(!problem, out);
    fwrite(numbers, sizeof numbers, 1, out);
    fwrite(problem ? (const void *)problem : model, 1, size, out);
    free(content);
    free(model);
  }
  return fclose(in) || fclose(out);
}
