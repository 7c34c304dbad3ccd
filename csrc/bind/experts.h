// Adds the stages of mixtures of experts to a program.
#pragma once

#include <nanobind/nanobind.h>

namespace tailrace {

void bind_experts(nanobind::module_& module);

}  // namespace tailrace
