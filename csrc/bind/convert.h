#pragma once

#include <nanobind/nanobind.h>

namespace tailrace {

void bind_convert(nanobind::module_& module);

}  // namespace tailrace
