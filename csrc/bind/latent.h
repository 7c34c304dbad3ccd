// Adds the stages of latent attention to a program.
#pragma once

#include <nanobind/nanobind.h>

namespace tailrace {

void bind_latent(nanobind::module_& module);

}  // namespace tailrace
