#include <deque>
#include <stdexcept>
#include <string>

#include "bind/ring/ends.h"
#include "bind/ring/memory.h"
#include "ring/message_ring.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tailrace {

namespace {

struct PyMessageRing {
    explicit PyMessageRing(nb::handle buffer)
        : memory(buffer, PyBUF_WRITABLE), ring(memory.data(), memory.num_bytes()) {}

    bool send(uint32_t kind, uint32_t generation, const nb::args& parts) {
        std::deque<Memory> taken;
        size_t length = 0;
        for (nb::handle part : parts) length += taken.emplace_back(part, PyBUF_SIMPLE).num_bytes();
        require_possible(length);
        if (!ring.begin({static_cast<uint32_t>(length), kind, generation})) return false;
        for (const Memory& part : taken) ring.append(part.data(), part.num_bytes());
        ring.publish();
        return true;
    }

    nb::object receive() {
        const std::optional<Message> message = ring.peek();
        if (!message) return nb::none();
        nb::object payload = nb::steal(PyBytes_FromStringAndSize(nullptr, message->length));
        if (!payload.is_valid()) throw nb::python_error();
        ring.copy(*message, PyBytes_AS_STRING(payload.ptr()));
        nb::object received = nb::make_tuple(message->kind, message->generation, payload);
        ring.drop(*message);
        return received;
    }

    void require_possible(size_t length) const {
        if (length <= ring.max_message_bytes() && length <= UINT32_MAX) return;
        throw std::invalid_argument("a message of " + std::to_string(length) + " bytes never fits into this ring: " +
                                    std::to_string(ring.max_message_bytes()) + " at most");
    }

    Memory memory;
    MessageRing ring;
};

}  // namespace

void bind_messages(nb::module_& module) {
    nb::class_<PyMessageRing>(module, "MessageRing")
        .def(nb::init<nb::handle>(), "buffer"_a)
        .def_static("bytes_for", &MessageRing::bytes_for, "capacity_bytes"_a)
        .def_prop_ro("capacity_bytes", [](const PyMessageRing& self) { return self.ring.capacity(); })
        .def_prop_ro("max_message_bytes", [](const PyMessageRing& self) { return self.ring.max_message_bytes(); })
        .def_prop_ro("used_bytes", [](const PyMessageRing& self) { return self.ring.used_bytes(); })
        .def_prop_ro("free_bytes",
                     [](const PyMessageRing& self) { return self.ring.capacity() - self.ring.used_bytes(); })
        .def("send", &PyMessageRing::send, "kind"_a, "generation"_a, "parts"_a)
        .def("receive", &PyMessageRing::receive);
}

}  // namespace tailrace
