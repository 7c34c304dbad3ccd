// The rings as Python sees them (src/tailrace/ring/_ring.pyi).
#include <nanobind/nanobind.h>

#include "bind/ring/ends.h"
#include "ring/positions.h"

namespace nb = nanobind;

namespace tailrace {

namespace {

void raise_damage(const std::exception_ptr& thrown, void* error) {
    try {
        std::rethrow_exception(thrown);
    } catch (const RingDamage& damage) {
        PyErr_Format(static_cast<PyObject*>(error),
                     "a ring in shared memory is damaged, %s: what its ends had to say to each other is lost",
                     damage.what());
    }
}

}  // namespace

NB_MODULE(_ring, module) {
    nb::set_leak_warnings(false);  // a thread may still wait for a bell when the interpreter ends
    nb::object error = nb::module_::import_("tailrace.errors").attr("RingDamaged");
    nb::register_exception_translator(&raise_damage, error.release().ptr());
    bind_bells(module);
    bind_messages(module);
    bind_tokens(module);
}

}  // namespace tailrace
