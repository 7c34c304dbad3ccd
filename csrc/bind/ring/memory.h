// Memory that a Python object lends, for as long as this lives.
#pragma once

#include <nanobind/nanobind.h>

namespace tailrace {

class Memory {
  public:
    // Raises BufferError, TypeError.
    Memory(nanobind::handle lender, int flags) {
        if (PyObject_GetBuffer(lender.ptr(), &buffer_, flags) != 0) throw nanobind::python_error();
    }
    ~Memory() { PyBuffer_Release(&buffer_); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    void* data() const { return buffer_.buf; }
    size_t num_bytes() const { return static_cast<size_t>(buffer_.len); }

  private:
    Py_buffer buffer_;
};

}  // namespace tailrace
