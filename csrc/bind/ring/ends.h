// The parts of the module `_ring`, one a file.
#pragma once

#include <nanobind/nanobind.h>

namespace tailrace {

void bind_bells(nanobind::module_& module);
void bind_messages(nanobind::module_& module);
void bind_tokens(nanobind::module_& module);

}  // namespace tailrace
