// Python classes for vectors, angles, matrices and ranges.
#pragma once

#include <pybind11/operators.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cmath>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "magnum_layouts.hpp"

namespace py = pybind11;

template <class V> struct IsColor4 : std::false_type {};
template <class T> struct IsColor4<Magnum::Math::Color4<T>> : std::true_type {};

// From one number for all, from as many as there are, from one sequence; a colour without alpha is opaque.
template <class V, class T, int N> V vectorFrom(const py::args &arguments) {
  py::sequence values = arguments;
  if (arguments.size() == 1 && (!PyNumber_Check(arguments[0].ptr()) || py::hasattr(arguments[0], "__len__")))
    values = py::reinterpret_borrow<py::sequence>(py::list(arguments[0]));
  const int given = int(py::len(values));
  const bool opaque = IsColor4<V>::value && given == N - 1;
  if (given != 1 && given != N && !opaque) throw py::value_error("wrong number of components");
  V v{};
  for (int i = 0; i < N; ++i)
    v.data[i] = opaque && i == N - 1 ? T(1) : values[given == 1 ? 0 : i].template cast<T>();
  return v;
}

template <int N> int checkedIndex(int i) {
  if (i < 0) i += N;
  if (i < 0 || i >= N) throw py::index_error();
  return i;
}

template <class V> double squaredLengthOf(const V &v, int n) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += double(v.data[i]) * v.data[i];
  return sum;
}

template <class V, class T, int N> void defineArithmetic(py::class_<V> &c) {
  c.def("__eq__", [](V &a, V &b) { return !std::memcmp(a.data, b.data, sizeof(a.data)); });
  c.def("__add__", [](V a, V &b) { for (int i = 0; i < N; ++i) a.data[i] += b.data[i]; return a; });
  c.def("__sub__", [](V a, V &b) { for (int i = 0; i < N; ++i) a.data[i] -= b.data[i]; return a; });
  c.def("__neg__", [](V a) { for (T &x : a.data) x = -x; return a; });
  c.def("__mul__", [](V a, T k) { for (T &x : a.data) x *= k; return a; });
  c.def("__mul__", [](V a, V &b) { for (int i = 0; i < N; ++i) a.data[i] *= b.data[i]; return a; });
  c.def("__rmul__", [](V a, T k) { for (T &x : a.data) x *= k; return a; });
  c.def("__truediv__", [](V a, T k) { for (T &x : a.data) x /= k; return a; });
  c.def("dot", [](V &a) { return T(squaredLengthOf(a, N)); });
  c.def("length", [](V &a) { return std::sqrt(squaredLengthOf(a, N)); });
  c.def("normalized", [](V a) {
    const double length = std::sqrt(squaredLengthOf(a, N));
    for (T &x : a.data) x = T(x / length);
    return a;
  });
}

template <class V, class T, int N> void defineVector(py::module_ &m, const char *name) {
  py::class_<V> c(m, name, py::buffer_protocol());
  c.def(py::init([] { return V{}; })).def(py::init(&vectorFrom<V, T, N>));
  c.def_buffer([](V &v) { return py::buffer_info(v.data, N); });
  c.def_static("zero_init", [] { return V{}; });
  c.def("__len__", [](V &) { return N; });
  c.def("__getitem__", [](V &v, int i) { return v.data[checkedIndex<N>(i)]; });
  c.def("__setitem__", [](V &v, int i, T x) { v.data[checkedIndex<N>(i)] = x; });
  c.def("__repr__", [](V &v) {
    std::string text = "Vector(";
    for (int i = 0; i < N; ++i) text += (i ? ", " : "") + std::to_string(v.data[i]);
    return text + ")";
  });
  for (int i = 0; i < N; ++i) {
    const std::string axis(1, "xyzw"[i]);
    c.def_property(axis.c_str(), [i](V &v) { return v.data[i]; }, [i](V &v, T x) { v.data[i] = x; });
    const auto along = [i](T length) { V v{}; v.data[i] = length; return v; };
    c.def_static((axis + "_axis").c_str(), along, py::arg("length") = T(1));
  }
  defineArithmetic<V, T, N>(c);
  if constexpr (N == 4 && std::is_same<T, float>::value)
    c.def_property_readonly("xyz", [](V &v) { return Vector3f{{v.data[0], v.data[1], v.data[2]}}; });
  if constexpr (N == 3 && std::is_same<T, float>::value)
    c.def_property_readonly("xy", [](V &v) { return Magnum::Math::Vector2<float>{{v.data[0], v.data[1]}}; });
  py::implicitly_convertible<py::tuple, V>();
  py::implicitly_convertible<py::list, V>();
  py::implicitly_convertible<py::buffer, V>();
}

// A colour is a vector in C++ and, by the first base, in Python; it needs only its own constructor.
template <class C, class Base, int N> void defineColor(py::module_ &m, const char *name) {
  py::class_<C, Base>(m, name).def(py::init([] { return C{}; })).def(py::init(&vectorFrom<C, float, N>));
  py::implicitly_convertible<py::tuple, C>();
  py::implicitly_convertible<py::list, C>();
  py::implicitly_convertible<py::buffer, C>();
}

template <class Angle> void defineAngle(py::class_<Angle> &c, const char *name) {
  c.def(py::init([](double v) { return Angle{v}; }));
  c.def("__float__", [](Angle a) { return a.value; });
  c.def("__repr__", [name](Angle a) { return name + ("(" + std::to_string(a.value)) + ")"; });
  c.def("__neg__", [](Angle a) { return Angle{-a.value}; });
  c.def("__add__", [](Angle a, Angle b) { return Angle{a.value + b.value}; });
  c.def("__sub__", [](Angle a, Angle b) { return Angle{a.value - b.value}; });
  c.def("__mul__", [](Angle a, double k) { return Angle{a.value * k}; });
  c.def("__lt__", [](Angle a, Angle b) { return a.value < b.value; });
  c.def("__gt__", [](Angle a, Angle b) { return a.value > b.value; });
  c.def("__eq__", [](Angle a, Angle b) { return a.value == b.value; });
}

// From a buffer of N x N numbers, read row by row as NumPy shows them.
template <class M, int N> M matrixFromBuffer(py::buffer given) {
  const py::object array = py::module_::import("numpy").attr("ascontiguousarray")(given, "float32");
  const py::buffer_info info = array.cast<py::buffer>().request();
  if (info.size != N * N) throw py::value_error("wrong shape for a matrix");
  M m;
  for (int row = 0; row < N; ++row)
    for (int column = 0; column < N; ++column)
      m.data[column * N + row] = static_cast<float *>(info.ptr)[row * N + column];
  return m;
}

template <class M, int N> M matrixFromColumns(const py::args &columns) {
  if (int(columns.size()) != N) throw py::value_error("wrong number of columns");
  M m;
  for (int column = 0; column < N; ++column) {
    const py::sequence values = py::reinterpret_borrow<py::sequence>(py::list(columns[column]));
    for (int row = 0; row < N; ++row) m.data[column * N + row] = values[row].cast<float>();
  }
  return m;
}

template <class M, int N> py::class_<M> defineMatrix(py::module_ &m, const char *name) {
  using Column = typename std::conditional<N == 4, Magnum::Math::Vector4<float>, Vector3f>::type;
  const auto one = [] { M m{}; for (int i = 0; i < N; ++i) m.data[i * (N + 1)] = 1; return m; };
  py::class_<M> c(m, name, py::buffer_protocol());
  c.def(py::init(one)).def(py::init(&matrixFromBuffer<M, N>)).def(py::init(&matrixFromColumns<M, N>));
  c.def_static("zero_init", [] { return M{}; }).def_static("identity_init", one);
  c.def_buffer([](M &x) {  // strides turn the columns of memory into the rows NumPy expects
    return py::buffer_info(x.data, 4, "f", 2, {py::ssize_t(N), py::ssize_t(N)}, {py::ssize_t(4), py::ssize_t(4 * N)});
  });
  c.def("__getitem__", [](M &x, std::pair<int, int> at) { return x.data[at.first * N + at.second]; });
  c.def("__getitem__", [](M &x, int k) {
    Column v;
    std::memcpy(v.data, x.data + checkedIndex<N>(k) * N, sizeof v.data);
    return v;
  });
  c.def("__eq__", [](M &a, M &b) { return !std::memcmp(a.data, b.data, sizeof(a.data)); });
  return c;
}

template <class R, class V> void defineRange(py::module_ &m, const char *name) {
  const auto made = [](V low, V high) { R r; r.min = low; r.max = high; return r; };
  py::class_<R>(m, name)
      .def(py::init([] { return R{}; }))
      .def(py::init(made), py::arg("min"), py::arg("max"))
      .def_property("min", [](R &r) { return r.min; }, [](R &r, V v) { r.min = v; })
      .def_property("max", [](R &r) { return r.max; }, [](R &r, V v) { r.max = v; });
}
