// The exponential function of double precision with every operation spelled out: the same bits as
// runtime_shims/reference/exponential.py, which states the formula. Its source is compiled without fused products.
#pragma once

namespace fixed_capacity {

// exp(value) for values <= 0, minus infinity included; 0 below -708.
double exponential(double value);

}  // namespace fixed_capacity
