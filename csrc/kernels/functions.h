// The kernels by name, once for each instruction set.
#pragma once

#include "kernels/kernels.h"

namespace tailrace::TAILRACE_ISA {

void embed(Format format, const Tile* tiles, int row, int cols, float* out);
void rms_norm(const float* x, const float* weight, int cols, float eps, float* out);
void layer_norm(const float* x, const float* weight, const float* bias, int cols, float eps, float* out);
void swiglu(const float* gate, const float* up, int cols, float* out);
void quantize(const float* x, const QuantizedRows& out, int row, int first_group, int num_groups, float fine_share);
void gemm_quantized(Format format, const QuantizedRows& x, int first_row, int num_rows, const Tile* tiles,
                    int num_tiles, const GemmOutput& out);
void gemm_float(Format format, const float* x, size_t stride, int inputs, int first_row, int num_rows,
                const Tile* tiles, int num_tiles, const GemmOutput& out);
void rotate(const RotaryHead& head, float* out);
void store_kv(KvFormat format, const float* key, const float* value, int head_dim, int lane, uint8_t* tile);
void attention(const AttentionTask& task);
void store_latent(KvFormat format, const float* key, int latent_dim, int key_dim, int lane, uint8_t* tile);
void latent_attention(const LatentTask& task);
void index_scores(const IndexTask& task);
void route(const Routing& routing, const float* logits, const float* bias, float* scratch, int32_t* experts,
           float* weights);
void add_scaled(const float* x, float scale, int n, float* out);
int arg_max(const float* x, int n);
void forbid(const float* x, const uint32_t* allowed, int n, float* out);
int top(const float* x, int n, int count, int32_t* ids);
int collect(const float* x, int n, float least, float below, int32_t* ids);
int select(const float* x, int n, int count, float* scratch, int32_t* ids);
double sum_at_least(const float* x, int n, float least);
float sum_exp(const float* x, int n, float max);
void exp_scaled(const float* x, int n, float max, float temperature, float* out);
float read_floats(const float* x, size_t n);
int32_t dot_codes(int64_t count);
float multiply_floats(int64_t count);
float multiply_halves(int64_t count);

}  // namespace tailrace::TAILRACE_ISA
