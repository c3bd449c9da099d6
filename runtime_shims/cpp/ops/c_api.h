/* The operators behind a plain C interface, for callers without ExecuTorch tensors (Python's ctypes).
 *
 * Tensors are contiguous and row-major. Every function returns 0, or -1 when the arguments are refused; then
 * nothing was written and fixed_capacity_last_refusal() tells why (per thread). Optional arguments are pointers.
 */
#ifndef FIXED_CAPACITY_C_API_H
#define FIXED_CAPACITY_C_API_H

#include <stdint.h>

#define FIXED_CAPACITY_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  void* data;
  int32_t rank;
  int32_t cache_type; /* of a cache, 0: float, 1: half precision, 2: 8 bits, each position with its scale behind it */
  int64_t sizes[4];
} fixed_capacity_tensor;

typedef struct {
  void* data;
  int64_t bytes;
} fixed_capacity_bytes;

typedef struct {
  const fixed_capacity_tensor* bias_table; /* float [H, N], or null */
  int64_t bias_origin;
  const int64_t* window; /* or null */
  double scale;
  const double* softcap; /* or null */
  const fixed_capacity_tensor* sinks; /* float [H], or null; cached attention only */
} fixed_capacity_options;

/* tensors: query, key, value, key_cache, value_cache, positions, step_lengths, out */
FIXED_CAPACITY_API int32_t fixed_capacity_cached_attention(const fixed_capacity_tensor tensors[8],
    const fixed_capacity_options* options);
/* tensors: query, key_cache, value_cache, positions, step_lengths, out */
FIXED_CAPACITY_API int32_t fixed_capacity_shared_attention(const fixed_capacity_tensor tensors[6],
    const fixed_capacity_options* options);
/* tensors: query, key, value, key_cache, value_cache, cross_key_cache, cross_value_cache, positions, step_lengths,
 * cross_lengths, out */
FIXED_CAPACITY_API int32_t fixed_capacity_merged_attention(const fixed_capacity_tensor tensors[11],
    const fixed_capacity_options* options);
/* tensors: query, key_cache, value_cache, lengths, out */
FIXED_CAPACITY_API int32_t fixed_capacity_cross_attention(const fixed_capacity_tensor tensors[5],
    const fixed_capacity_options* options);
/* tensors: query, key, value, lengths, out */
FIXED_CAPACITY_API int32_t fixed_capacity_encoder_attention(const fixed_capacity_tensor tensors[5],
    const fixed_capacity_options* options);
/* tensors: key, value, key_cache, value_cache, lengths, out */
FIXED_CAPACITY_API int32_t fixed_capacity_write_cross(const fixed_capacity_tensor tensors[6]);

/* How a weight matrix is stored: weight_layout.h. */
typedef struct {
  int64_t width;
  int64_t features;
  int64_t bits;
  int64_t group;
} fixed_capacity_layout;

/* input (float or quantized rows), weight, bias or null, out float [rows, features] */
FIXED_CAPACITY_API int32_t fixed_capacity_linear(const fixed_capacity_bytes tensors[4],
    const fixed_capacity_layout* layout, int64_t rows);
/* input float [rows, width], out bytes */
FIXED_CAPACITY_API int32_t fixed_capacity_quantize_rows(const fixed_capacity_bytes tensors[2],
    const fixed_capacity_layout* layout, int64_t rows);
/* indices int64 [count], weight, out float [count, width] */
FIXED_CAPACITY_API int32_t fixed_capacity_embed(const fixed_capacity_bytes tensors[3],
    const fixed_capacity_layout* layout, int64_t count);

FIXED_CAPACITY_API const char* fixed_capacity_last_refusal(void);

/* From now on, methods of one program that are loaded share one packed copy of their weights (XNNPACK).
 * Returns 0, or -1 when the backend refuses. */
FIXED_CAPACITY_API int32_t fixed_capacity_share_packed_weights(void);

/* Name of the kernel variant this processor runs. */
FIXED_CAPACITY_API const char* fixed_capacity_kernel_variant(void);

#ifdef __cplusplus
}
#endif

#endif
