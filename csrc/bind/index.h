// Adds the stages of lightning indexers to a program.
#pragma once

#include <nanobind/nanobind.h>

namespace tailrace {

void bind_index(nanobind::module_& module);

}  // namespace tailrace
