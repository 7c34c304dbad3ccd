#include <nanobind/stl/optional.h>

#include <algorithm>

#include "bind/ring/ends.h"
#include "bind/ring/memory.h"
#include "ring/bell.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tailrace {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kLongestWait_s = 1e6;

Clock::time_point in_seconds(double seconds) {
    const std::chrono::duration<double> time(std::clamp(seconds, 0.0, kLongestWait_s));
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(time);
}

template <class AnyBell>
Waited wait_once(AnyBell& bell, Deadline deadline) {
    nb::gil_scoped_release release;
    return bell.wait(deadline);
}

template <class AnyBell>
bool spin(AnyBell& bell, double spin_s) {
    nb::gil_scoped_release release;
    return bell.spin(in_seconds(spin_s));
}

template <class AnyBell>
bool wait(AnyBell& bell, std::optional<double> timeout_s, double spin_s) {
    Deadline deadline;
    if (timeout_s) deadline = in_seconds(*timeout_s);
    if (spin_s > 0 && spin(bell, timeout_s ? std::min(spin_s, *timeout_s) : spin_s)) return true;
    for (;;) {
        const Waited waited = wait_once(bell, deadline);
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        if (waited != Waited::kAgain) return waited == Waited::kRung;
    }
}

struct PyFutexBell {
    explicit PyFutexBell(nb::handle buffer) : memory(buffer, PyBUF_WRITABLE), bell(memory.data(), memory.num_bytes()) {}

    Memory memory;
    FutexBell bell;
};

}  // namespace

void bind_bells(nb::module_& module) {
    nb::class_<Bell>(module, "Bell")
        .def(nb::init<>())
        .def_prop_ro("fd", &Bell::fd)
        .def("ring", &Bell::ring)
        .def("arm", &Bell::arm)
        .def("clear", &Bell::clear)
        .def("wait", &wait<Bell>, "timeout_s"_a.none(), "spin_s"_a = 0.0);

    nb::class_<PyFutexBell> futex_bell(module, "FutexBell");
    futex_bell.attr("NUM_BYTES") = sizeof(BellWords);
    futex_bell.def(nb::init<nb::handle>(), "buffer"_a)
        .def("ring", [](PyFutexBell& self) { self.bell.ring(); })
        .def(
            "wait",
            [](PyFutexBell& self, std::optional<double> timeout_s, double spin_s) {
                return wait(self.bell, timeout_s, spin_s);
            },
            "timeout_s"_a.none(), "spin_s"_a = 0.0);
}

}  // namespace tailrace
