/* Expands a shrunk TFLite file (docs/container.md). C99, needs zlib. Include it
 * in one source file with TFLZ_IMPLEMENTATION defined. tflz_expand returns NULL,
 * and a model to free(), or else what is wrong. `read` works like fread: it
 * returns fewer bytes than asked for only at the end. Beside the expanded file
 * it takes less than 1 MB of memory. */
#pragma once
#include <stddef.h>
#include <stdint.h>
typedef size_t (*tflz_read)(void *context, void *to, size_t count);
const char *tflz_expand(tflz_read read, void *context, size_t limit,
                        uint8_t **model, size_t *size);

#ifdef TFLZ_IMPLEMENTATION
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { TFLZ_CHUNK = 1 << 16, TFLZ_MAX_RANGES = 16384 };

typedef struct {
  tflz_read read;
  void *context;
  uint8_t *out;
  size_t size, at, missing; /* `missing`: bytes between the ranges, unfilled. */
  uint32_t count, next;     /* Ranges in the table, and the one after `at`. */
  uint8_t table[12 * TFLZ_MAX_RANGES], chunk[TFLZ_CHUNK], plain[TFLZ_CHUNK];
} tflz_state;

static uint32_t tflz_u32(const uint8_t *p) {
  return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Copies inflated bytes to where no range is. */
static void tflz_fill(tflz_state *s, const uint8_t *data, size_t count) {
  while (count > 0) {
    const uint8_t *range = s->table + 12 * s->next;
    size_t stop = s->next < s->count ? tflz_u32(range) : s->size;
    size_t n = stop - s->at < count ? stop - s->at : count;
    memcpy(s->out + s->at, data, n);
    s->at += n, data += n, count -= n, s->missing -= n;
    if (count > 0) s->at = stop + tflz_u32(range + 4), s->next++;
  }
}

static const char *tflz_inflate(tflz_state *s, uint32_t unread, uint32_t crc) {
  z_stream z = {0};
  uLong seen = 0;
  int code = inflateInit(&z);
  while (code == Z_OK) {
    if (z.avail_in == 0 && unread > 0) {
      z.avail_in = unread < TFLZ_CHUNK ? unread : TFLZ_CHUNK;
      if (s->read(s->context, s->chunk, z.avail_in) != z.avail_in) break;
      seen = crc32(seen, s->chunk, z.avail_in);
      unread -= z.avail_in, z.next_in = s->chunk;
    }
    z.next_out = s->plain, z.avail_out = TFLZ_CHUNK;
    code = inflate(&z, Z_NO_FLUSH);
    if (TFLZ_CHUNK - z.avail_out > s->missing) code = Z_DATA_ERROR;
    else tflz_fill(s, s->plain, TFLZ_CHUNK - z.avail_out);
  }
  inflateEnd(&z);
  int whole = code == Z_STREAM_END && !unread && !z.avail_in && !s->missing;
  return whole && seen == crc ? NULL : "damaged container: its deflated rest";
}

static const char *tflz_bits(tflz_state *s, const uint8_t *range) {
  uint8_t *out = s->out + tflz_u32(range), rows[256][8] = {{0}};
  size_t length = tflz_u32(range + 4), per_byte = tflz_u32(range + 8);
  size_t width = 8 / per_byte; /* Bits per weight, and bytes per byte of signs. */
  for (size_t i = 0; i < 256 * 8; i++) {
    int code = i / 8 >> i % 8 & 1 ? 1 : (1 << width) - 1;
    rows[i / 8][i % 8 / per_byte] |= code << i % per_byte * width;
  }
  while (length > 0) {
    size_t count = (length + width - 1) / width, last;
    if (count > TFLZ_CHUNK) count = TFLZ_CHUNK;
    last = length - (count - 1) * width < width ? length - (count - 1) * width : width;
    if (s->read(s->context, s->chunk, count) != count) return "truncated container";
    for (size_t i = 0; i < count; i++, out += width)
      memcpy(out, rows[s->chunk[i]], i + 1 < count ? width : last);
    if (s->chunk[count - 1] >> last * per_byte) return "damaged container: unused bits";
    length -= (count - 1) * width + last;
  }
  return NULL;
}

static const char *tflz_run(tflz_state *s, size_t limit) {
  uint8_t h[32];
  size_t end = 0;
  if (s->read(s->context, h, 32) != 32) return "truncated container";
  if (memcmp(h, "TFLZ\1\0\0\0", 8) != 0) return "not a container of version 1";
  s->size = s->missing = tflz_u32(h + 8), s->count = tflz_u32(h + 16);
  if (s->count > TFLZ_MAX_RANGES) return "damaged container: too many ranges";
  size_t n = 12 * s->count;
  if (s->read(s->context, s->table, n) != n) return "truncated container";
  uLong crc = crc32(crc32(0, h, 28), s->table, (uInt)n);
  if (crc != tflz_u32(h + 28)) return "damaged container: header";
  if (s->size > limit) return "container expands to more than the limit";
  for (const uint8_t *r = s->table; r < s->table + n; r += 12) {
    size_t offset = tflz_u32(r), length = tflz_u32(r + 4), code = tflz_u32(r + 8);
    if (code != 1 && code != 2 && code != 4) return "unknown encoding";
    if (offset < end || offset >= s->size || !length || length > s->size - offset)
      return "damaged container: ranges";
    end = offset + length, s->missing -= length;
  }
  if (s->missing / 1032 > tflz_u32(h + 20)) return "damaged container: size";
  if (!(s->out = malloc(s->size + !s->size))) return "out of memory";
  const char *problem = tflz_inflate(s, tflz_u32(h + 20), tflz_u32(h + 24));
  for (uint32_t i = 0; i < s->count && !problem; i++)
    problem = tflz_bits(s, s->table + 12 * i);
  if (problem) return problem;
  if (s->read(s->context, s->chunk, 1)) return "damaged container: bytes at its end";
  return crc32(0, s->out, (uInt)s->size) == tflz_u32(h + 12) ? NULL : "damaged container";
}

const char *tflz_expand(tflz_read read, void *context, size_t limit,
                        uint8_t **model, size_t *size) {
  tflz_state *s = calloc(1, sizeof *s);
  if (!s) return "out of memory";
  s->read = read, s->context = context;
  const char *problem = tflz_run(s, limit);
  if (problem) free(s->out);
  if (!problem) *model = s->out, *size = s->size;
  free(s);
  return problem;
}
#endif
