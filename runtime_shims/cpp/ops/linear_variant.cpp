// Compiled once per instruction set, like kernel_variant.cpp, and for those with byte products beside.
#include "linear.h"

namespace fixed_capacity::FIXED_CAPACITY_VARIANT {

void run_linear(const LinearTask& task);
void run_quantize(const QuantizeTask& task);
void run_embed(const EmbedTask& task);

void run_linear(const LinearTask& task) { linear(task); }

void run_quantize(const QuantizeTask& task) { quantize_rows(task); }

void run_embed(const EmbedTask& task) { embed(task); }

}  // namespace fixed_capacity::FIXED_CAPACITY_VARIANT
