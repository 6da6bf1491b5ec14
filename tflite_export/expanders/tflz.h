/* Expands a container (docs/container.md). C99 or C++, needs zlib. */
#pragma once
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { TFLZ_CHUNK = 1 << 16, TFLZ_MAX_RANGES = 16384 };
typedef size_t (*tflz_read)(void *context, void *to, size_t count);
typedef struct {
  tflz_read read;
  void *context;
  z_stream z;
  int status;           /* What inflate returned. */
  uint32_t unread, crc; /* Of the deflated rest: bytes left, CRC-32 so far. */
  uint8_t *model, chunk[TFLZ_CHUNK], table[12 * TFLZ_MAX_RANGES + 12], rows[5][256][8];
} tflz_state;

static size_t tflz_min(size_t a, size_t b) { return a < b ? a : b; }
static uint32_t tflz_u32(const uint8_t *p) {
  return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Inflates at most `count` bytes of the rest. Returns how many. */
static size_t tflz_inflate(tflz_state *s, uint8_t *to, size_t count) {
  s->z.next_out = to;
  s->z.avail_out = (uInt)count;
  while (s->status == Z_OK && s->z.avail_out > 0) {
    if (s->z.avail_in == 0) {
      size_t wanted = tflz_min(s->unread, TFLZ_CHUNK);
      s->z.next_in = s->chunk;
      s->z.avail_in = (uInt)s->read(s->context, s->chunk, wanted);
      s->unread -= s->z.avail_in;
      s->crc = (uint32_t)crc32(s->crc, s->chunk, s->z.avail_in);
    }
    s->status = inflate(&s->z, Z_NO_FLUSH);
  }
  return count - s->z.avail_out;
}

/* Expands the sign bits of a range to weights of +1 and -1. */
static int tflz_weights(tflz_state *s, const uint8_t *range) {
  size_t length = tflz_u32(range + 4), per_byte = tflz_u32(range + 8);
  size_t width = 8 / per_byte; /* Bits per weight, bytes per byte of signs. */
  uint8_t *to = s->model + tflz_u32(range), (*rows)[8] = s->rows[per_byte];
  for (size_t i = rows[0][0] ? 2048 : 0; i < 2048; i++) { /* Once per encoding. */
    int code = i / 8 >> i % 8 & 1 ? 1 : (1 << width) - 1;
    rows[i / 8][i % 8 / per_byte] |= (uint8_t)(code << i % per_byte * width);
  }
  while (length > 0) {
    size_t count = tflz_min((length - 1) / width + 1, TFLZ_CHUNK);
    if (s->read(s->context, s->chunk, count) != count) return 0;
    for (size_t i = 0; i < count; i++) {
      size_t n = tflz_min(length, width);
      if (s->chunk[i] >> n * per_byte) return 0; /* Unused bits are zero. */
      /* A constant size is faster. Later rounds overwrite the surplus. */
      if (length >= 8) memcpy(to, rows[s->chunk[i]], 8);
      else memcpy(to, rows[s->chunk[i]], n);
      to += n;
      length -= n;
    }
  }
  return 1;
}

static const char *tflz_run(tflz_state *s, size_t limit, size_t *size) {
  uint8_t h[32], *r, extra;
  if (s->read(s->context, h, 32) != 32) return "Damaged container: truncated header";
  if (memcmp(h, "TFLZ", 4)) return "Not a container: it does not begin with 'TFLZ'";
  if (tflz_u32(h + 4) != 1) return "Unknown container version: not 1";
  size_t missing = *size = tflz_u32(h + 8), end = 0, n = tflz_u32(h + 16);
  if (n > TFLZ_MAX_RANGES) return "Damaged container: too many ranges";
  uint8_t *table_end = s->table + (n *= 12);
  if (s->read(s->context, s->table, n) != n ||
      crc32(crc32(0, h, 28), s->table, (uInt)n) != tflz_u32(h + 28))
    return "Damaged container: truncated or wrong header";
  if (*size > limit) return "File too large: it expands to more than the limit";
  for (r = s->table; r < table_end; r += 12) {
    size_t offset = tflz_u32(r), length = tflz_u32(r + 4), code = tflz_u32(r + 8);
    if ((code != 1 && code != 2 && code != 4) || offset < end || offset > *size ||
        length == 0 || length > *size - offset)
      return "Damaged container: wrong ranges";
    end = offset + length;
    missing -= length;
  }
  s->unread = tflz_u32(h + 20);
  if (missing / 1032 > s->unread) return "Damaged container: its size is impossible";
  s->model = (uint8_t *)malloc(*size > 0 ? *size : 1);
  if (!s->model || inflateInit(&s->z) != Z_OK) return "Out of memory";
  memcpy(table_end, h + 8, 4); /* An empty range at the end of the file. */
  for (r = s->table, end = 0; r <= table_end; r += 12) {
    missing -= tflz_inflate(s, s->model + end, tflz_u32(r) - end);
    end = tflz_u32(r) + tflz_u32(r + 4);
  }
  if (missing > 0 || tflz_inflate(s, &extra, 1) > 0 || s->status != Z_STREAM_END ||
      s->z.avail_in > 0 || s->unread > 0 || s->crc != tflz_u32(h + 24))
    return "Damaged container: truncated or wrong rest";
  for (r = s->table; r < table_end; r += 12)
    if (!tflz_weights(s, r)) return "Damaged container: missing or wrong sign bits";
  if (s->read(s->context, &extra, 1) > 0) return "Damaged container: bytes follow";
  uint32_t crc = (uint32_t)crc32(0, s->model, (uInt)*size);
  return crc == tflz_u32(h + 12) ? NULL : "Damaged container: wrong CRC";
}

/* Sets *model, to be freed with free(), and *size, or returns what is wrong.
 * `read` returns fewer bytes than asked for only at the end, as fread. */
static const char *tflz_expand(tflz_read read, void *context, size_t limit,
                               uint8_t **model, size_t *size) {
  tflz_state *s = (tflz_state *)calloc(1, sizeof *s);
  if (!s) return "Out of memory";
  s->read = read;
  s->context = context;
  const char *problem = tflz_run(s, limit, size);
  inflateEnd(&s->z);
  if (problem) free(s->model);
  else *model = s->model;
  free(s);
  return problem;
}
