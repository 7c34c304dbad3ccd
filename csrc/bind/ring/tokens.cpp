#include <nanobind/stl/optional.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bind/ring/ends.h"
#include "bind/ring/memory.h"
#include "ring/token_ring.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tailrace {

namespace {

// The members of tailrace.types.FinishReason in their order. They live as long as the interpreter.
class FinishReasons {
  public:
    void load() {
        size_t count = 0;
        for (nb::handle reason : nb::module_::import_("tailrace.types").attr("FinishReason")) {
            if (count == kNumFinishReasons) break;
            reasons_[count++] = nb::borrow(reason).release().ptr();
        }
    }

    uint8_t code_of(nb::handle reason) const {
        if (reason.is_none()) return 0;
        const auto found = std::find(reasons_.begin(), reasons_.end(), reason.ptr());
        if (found == reasons_.end()) throw nb::type_error("finish_reason must be a FinishReason or None");
        return static_cast<uint8_t>(found - reasons_.begin() + 1);
    }

    nb::object reason_of(uint8_t code) const { return code == 0 ? nb::none() : nb::borrow(reasons_[code - 1]); }

  private:
    std::array<PyObject*, kNumFinishReasons> reasons_{};
};

FinishReasons finish_reasons;

int32_t token_id_of(nb::handle token_id) {
    if (token_id.is_none()) return kNoToken;
    const long value = PyLong_AsLong(token_id.ptr());
    if (value == -1 && PyErr_Occurred()) throw nb::python_error();
    if (value < 0 || value > std::numeric_limits<int32_t>::max()) {
        throw std::invalid_argument("token id " + std::to_string(value) + " is none");
    }
    return static_cast<int32_t>(value);
}

float logprob_of(nb::handle logprob) {
    if (logprob.is_none()) return std::numeric_limits<float>::quiet_NaN();
    const double value = PyFloat_AsDouble(logprob.ptr());
    if (value == -1.0 && PyErr_Occurred()) throw nb::python_error();
    return static_cast<float>(value);
}

nb::object tuple_of(const TokenSlot& slot) {
    const nb::object token_id = slot.token_id == kNoToken ? nb::none() : nb::object(nb::int_(slot.token_id));
    const nb::object logprob = std::isnan(slot.logprob) ? nb::none() : nb::object(nb::float_(slot.logprob));
    return nb::make_tuple(slot.number, token_id, logprob, slot.position, slot.generation,
                          finish_reasons.reason_of(slot.finish), slot.has_detail != 0);
}

struct PyTokenRing {
    explicit PyTokenRing(nb::handle buffer) : memory(buffer, PyBUF_WRITABLE), ring(memory.data(), memory.num_bytes()) {}

    bool push_detailed(uint64_t number, nb::handle token_id, nb::handle logprob, uint32_t position, uint32_t generation,
                       nb::handle finish_reason) {
        const TokenSlot slot{number,
                             token_id_of(token_id),
                             logprob_of(logprob),
                             position,
                             generation,
                             0,
                             finish_reasons.code_of(finish_reason),
                             1,
                             0};
        if (ring.begin() == 0) return false;
        ring.append(slot);
        ring.publish();
        was_pushed = true;
        return true;
    }

    nb::list pop(size_t most) {
        nb::list popped;
        const size_t count = std::min(most, ring.num_used());
        for (size_t i = 0; i < count; ++i) {
            TokenSlot slot;
            try {
                slot = ring.peek(i);
            } catch (const RingDamage&) {
                if (i == 0) throw;
                break;
            }
            popped.append(tuple_of(slot));
        }
        ring.drop(popped.size());
        return popped;
    }

    bool take_pushed() { return std::exchange(was_pushed, false); }

    Memory memory;
    TokenRing ring;
    bool was_pushed = false;
};

// What the reader of a ring has been told of a request.
struct Told {
    nb::object ring_object;
    PyTokenRing* ring;
    uint64_t number;
    uint32_t position;
    nb::object prefix;
};

// The fields of a tailrace.types.TokenEvent.
enum Field {
    kRequestId,
    kTokenId,
    kPrefix,
    kFinishReason,
    kLogprob,
    kTopLogprobs,
    kError,
    kRefusal,
    kBeginning,
    kNumFields
};

class Event {
  public:
    explicit Event(PyObject* event) : event_(event) {
        if (!PyTuple_Check(event) || PyTuple_GET_SIZE(event) != kNumFields) {
            throw nb::type_error("push_events: an event is no TokenEvent");
        }
    }

    nb::handle operator[](Field field) const { return PyTuple_GET_ITEM(event_, field); }

    // Whether a slot has room for all of it that the reader has not been told.
    bool is_plain(const Told& told) const {
        const nb::handle prefix = (*this)[kPrefix], best = (*this)[kTopLogprobs];
        return !(*this)[kTokenId].is_none() && (*this)[kError].is_none() && (*this)[kRefusal].is_none() &&
               (*this)[kBeginning].is_none() && PyTuple_Check(best.ptr()) && PyTuple_GET_SIZE(best.ptr()) == 0 &&
               (prefix.is_none() || prefix.is(told.prefix));
    }

  private:
    PyObject* event_;
};

// The rings that one call of push_events writes to. Each is published once, when all is written or something failed.
class Batch {
  public:
    ~Batch() {
        for (const Open& open : open_) open.ring->ring.publish();
    }

    // False when the ring is full, or damaged: who pushes to it next is told.
    bool append(PyTokenRing& ring, const TokenSlot& slot) {
        Open* open = find(ring);
        if (open == nullptr || open->num_free == 0) return false;
        ring.ring.append(slot);
        ring.was_pushed = true;
        --open->num_free;
        return true;
    }

  private:
    struct Open {
        PyTokenRing* ring;
        size_t num_free;
    };

    Open* find(PyTokenRing& ring) {
        for (Open& open : open_) {
            if (open.ring == &ring) return &open;
        }
        try {
            return &open_.emplace_back(Open{&ring, ring.ring.begin()});
        } catch (const RingDamage&) {
            return nullptr;
        }
    }

    std::vector<Open> open_;
};

Told* told_of(const nb::dict& told, nb::handle request_id) {
    PyObject* found = PyDict_GetItemWithError(told.ptr(), request_id.ptr());
    if (found == nullptr && PyErr_Occurred()) throw nb::python_error();
    return found == nullptr ? nullptr : nb::cast<Told*>(nb::handle(found));
}

bool push(Batch& batch, const Event& event, Told& told, uint32_t generation) {
    const TokenSlot slot{told.number,
                         token_id_of(event[kTokenId]),
                         logprob_of(event[kLogprob]),
                         told.position + 1,
                         generation,
                         0,
                         finish_reasons.code_of(event[kFinishReason]),
                         0,
                         0};
    if (!batch.append(*told.ring, slot)) return false;
    ++told.position;
    return true;
}

size_t push_events(nb::handle events, const nb::dict& told_by_id, uint32_t generation, size_t first) {
    const nb::object items = nb::steal(PySequence_Fast(events.ptr(), "push_events: events must be a sequence"));
    if (!items.is_valid()) throw nb::python_error();
    Batch batch;
    const auto count = static_cast<size_t>(PySequence_Fast_GET_SIZE(items.ptr()));
    for (; first < count; ++first) {
        const Event event(PySequence_Fast_GET_ITEM(items.ptr(), static_cast<Py_ssize_t>(first)));
        Told* told = told_of(told_by_id, event[kRequestId]);
        if (told == nullptr || !event.is_plain(*told) || !push(batch, event, *told, generation)) break;
    }
    return first;
}

}  // namespace

void bind_tokens(nb::module_& module) {
    finish_reasons.load();

    nb::class_<PyTokenRing>(module, "TokenRing")
        .def(nb::init<nb::handle>(), "buffer"_a)
        .def_static("bytes_for", &TokenRing::bytes_for, "num_slots"_a)
        .def_prop_ro("num_slots", [](const PyTokenRing& self) { return self.ring.num_slots(); })
        .def_prop_ro("num_free", [](const PyTokenRing& self) { return self.ring.num_slots() - self.ring.num_used(); })
        .def("push_detailed", &PyTokenRing::push_detailed, "number"_a, "token_id"_a.none(), "logprob"_a.none(),
             "position"_a, "generation"_a, "finish_reason"_a.none())
        .def("pop", &PyTokenRing::pop, "most"_a)
        .def("take_pushed", &PyTokenRing::take_pushed);

    nb::class_<Told>(module, "Told")
        .def(
            "__init__",
            [](Told* self, nb::handle_t<PyTokenRing> ring, uint64_t number, uint32_t position) {
                new (self) Told{nb::borrow(ring), nb::cast<PyTokenRing*>(ring), number, position, nb::none()};
            },
            "ring"_a, "number"_a, "position"_a = 0)
        .def_ro("number", &Told::number)
        .def_rw("position", &Told::position)
        .def_rw("prefix", &Told::prefix, nb::for_setter(nb::arg("value").none()));

    module.def("push_events", &push_events, "events"_a, "told"_a, "generation"_a, "first"_a = 0);
}

}  // namespace tailrace
