// Conversion of weights on their way in. Shapes are checked here; the kernels trust them.
#include "bind/convert.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <stdexcept>

#include "convert/conversions.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tailrace {

namespace {

template <class Value, int kDims>
using Output = nb::ndarray<Value, nb::ndim<kDims>, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<const uint8_t, nb::ndim<2>, nb::device::cpu>;
using Scales = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void require(bool condition, const char* message) {
    if (!condition) throw std::invalid_argument(message);
}

const StoredForm& form_named(const std::string& name) {
    for (const StoredForm& form : kStoredForms) {
        if (name == form.name) return form;
    }
    throw std::invalid_argument("no stored form '" + name + "'");
}

// Rows of a matrix, as they lie in a file that is mapped.
class PyStoredRows {
  public:
    PyStoredRows(const std::string& form, Matrix data, std::optional<Scales> scales, int64_t block_rows,
                 int64_t block_cols, int64_t first_row)
        : data_(std::move(data)), scales_(std::move(scales)) {
        const StoredForm& stored = form_named(form);
        const auto num_rows = static_cast<int64_t>(data_.shape(0)), num_bytes = static_cast<int64_t>(data_.shape(1));
        require(num_bytes % stored.num_bytes == 0, "convert: a row ends inside a block");
        require(data_.stride(1) == 1 || num_bytes <= 1, "convert: bytes of a row are not neighbours");
        require((stored.stored == Stored::kE4m3) == scales_.has_value(), "convert: scales go with e4m3");
        rows_ = {stored.stored,
                 data_.data(),
                 data_.stride(0),
                 num_rows,
                 num_bytes / stored.num_bytes * stored.num_values,
                 {}};
        if (scales_) rows_.grid = grid(block_rows, block_cols, first_row);
    }

    const StoredRows& rows() const { return rows_; }

  private:
    ScaleGrid grid(int64_t block_rows, int64_t block_cols, int64_t first_row) const {
        const auto grid_rows = static_cast<int64_t>(scales_->shape(0)),
                   grid_cols = static_cast<int64_t>(scales_->shape(1));
        require(block_rows > 0 && block_cols > 0 && first_row >= 0, "convert: a block of scales is empty");
        require(block_cols % kGroupValues == 0 || block_cols >= rows_.num_cols, "convert: a scale ends inside a group");
        require(rows_.num_rows == 0 || (first_row + rows_.num_rows - 1) / block_rows < grid_rows,
                "convert: rows have no scale");
        require(rows_.num_cols == 0 || (rows_.num_cols - 1) / block_cols < grid_cols, "convert: columns have no scale");
        return {scales_->data(), grid_cols, block_rows, block_cols, first_row};
    }

    Matrix data_;
    std::optional<Scales> scales_;
    StoredRows rows_;
};

class Converter {
  public:
    explicit Converter(const std::string& isa) : conversions_(conversions_for(choose_isa(isa))) {}

    std::pair<double, double> to_q8(const PyStoredRows& from, const Output<int8_t, 3>& codes,
                                    const Output<uint16_t, 2>& scales) const {
        check(from, codes, kGroupValues);
        check(from, scales);
        return narrow(from, {static_cast<uint8_t*>(static_cast<void*>(codes.data())), scales.data(), nullptr});
    }

    std::pair<double, double> to_q4(const PyStoredRows& from, const Output<uint8_t, 3>& codes,
                                    const Output<uint16_t, 2>& scales, const Output<uint16_t, 2>& offsets) const {
        check(from, codes, kGroupValues / 2);
        check(from, scales);
        check(from, offsets);
        return narrow(from, {codes.data(), scales.data(), offsets.data()});
    }

    void to_f32(const PyStoredRows& from, const Output<float, 2>& values) const {
        require(static_cast<int64_t>(values.shape(0)) == from.rows().num_rows &&
                    static_cast<int64_t>(values.shape(1)) == from.rows().num_cols,
                "convert: the output has another shape");
        nb::gil_scoped_release release;
        conversions_.widen(from.rows(), values.data());
    }

  private:
    template <class Array>
    static void check(const PyStoredRows& from, const Array& groups, size_t code_bytes = 0) {
        require(from.rows().num_cols % kGroupValues == 0 &&
                    static_cast<int64_t>(groups.shape(0)) == from.rows().num_rows &&
                    static_cast<int64_t>(groups.shape(1)) == from.rows().num_cols / kGroupValues &&
                    (code_bytes == 0 || groups.shape(2) == code_bytes),
                "convert: the output has another shape");
    }

    std::pair<double, double> narrow(const PyStoredRows& from, const NarrowRows& to) const {
        nb::gil_scoped_release release;
        const Squares squares = conversions_.narrow(from.rows(), to);
        return {squares.lost, squares.values};
    }

    const Conversions& conversions_;
};

}  // namespace

void bind_convert(nb::module_& module) {
    nb::class_<PyStoredRows>(module, "StoredRows")
        .def(nb::init<const std::string&, Matrix, std::optional<Scales>, int64_t, int64_t, int64_t>(), "form"_a,
             "data"_a, "scales"_a.none(), "block_rows"_a, "block_cols"_a, "first_row"_a);
    nb::class_<Converter>(module, "Converter")
        .def(nb::init<const std::string&>(), "isa"_a)
        .def("to_q8", &Converter::to_q8, "rows"_a, "codes"_a, "scales"_a)
        .def("to_q4", &Converter::to_q4, "rows"_a, "codes"_a, "scales"_a, "offsets"_a)
        .def("to_f32", &Converter::to_f32, "rows"_a, "values"_a);
}

}  // namespace tailrace
