// The module `_fovea_magnum`: a stand-in for Magnum's Python bindings, as far as habitat-sim 0.2.2 needs them.
//
// Both modules must share pybind11's table of types, whose name holds the version of pybind11's internals, the compiler
// and the ABI. The wheel was built by clang with pybind11's internals 4; hence pybind11 2.10.4 and the definitions that
// `install.py` passes to the compiler.
#include "magnum_algebra.hpp"
#include "magnum_layouts.hpp"
#include "magnum_vectors.hpp"

using namespace Magnum;
using namespace Magnum::Math;

// The scene graph in C++ owns its objects: Python only ever holds a borrowed pointer.
template <class T> struct Borrowed {
  T *pointer = nullptr;
  Borrowed() = default;
  explicit Borrowed(T *p) : pointer(p) {}
  T *get() const { return pointer; }
};
PYBIND11_DECLARE_HOLDER_TYPE(T, Borrowed<T>)

static void defineVectors(py::module_ &m) {
  defineVector<Vector2<float>, float, 2>(m, "Vector2");
  defineVector<Vector3<float>, float, 3>(m, "Vector3");
  defineVector<Vector4<float>, float, 4>(m, "Vector4");
  defineVector<Vector2<int>, int, 2>(m, "Vector2i");
  defineVector<Vector3<int>, int, 3>(m, "Vector3i");
  defineVector<Vector2<unsigned>, unsigned, 2>(m, "Vector2ui");
  defineVector<Vector3<double>, double, 3>(m, "Vector3d");
  defineColor<Color3<float>, Vector3<float>, 3>(m, "Color3");
  defineColor<Color4<float>, Vector4<float>, 4>(m, "Color4");
}

static void defineAngles(py::module_ &m) {
  py::class_<Degrees> degrees(m, "Deg");
  py::class_<Radians> radians(m, "Rad");
  defineAngle(degrees, "Deg");
  defineAngle(radians, "Rad");
  degrees.def(py::init([](Radians r) { return Degrees{r.value * 180 / M_PI}; }));
  radians.def(py::init([](Degrees d) { return Radians{d.value * M_PI / 180}; }));
  py::implicitly_convertible<Degrees, Radians>();
  py::implicitly_convertible<Radians, Degrees>();
}

static Vector3f axisOf(const Quaternionf &q) {
  Vector3f axis = q.vector;
  const float length = float(std::sqrt(squaredLengthOf(axis, 3)));
  for (float &x : axis.data) x /= length;
  return axis;
}

static Quaternionf quaternionFromPair(std::pair<py::sequence, float> pair) {
  Quaternionf q;
  for (int i = 0; i < 3; ++i) q.vector.data[i] = pair.first[i].cast<float>();
  q.scalar = pair.second;
  return q;
}

static void defineQuaternion(py::module_ &m) {
  const auto one = [] { return Quaternionf{{{0, 0, 0}}, 1}; };
  py::class_<Quaternionf>(m, "Quaternion")
      .def(py::init(one))
      .def(py::init([](Vector3f v, float s) { return Quaternionf{v, s}; }), py::arg("vector"), py::arg("scalar"))
      .def(py::init(&quaternionFromPair))
      .def_static("identity_init", one)
      .def_static("rotation", &rotationAbout)
      .def_static("from_matrix", [](Matrix3f &x) { return fromColumns(x.data, x.data + 3, x.data + 6); })
      .def_property(
          "vector", [](Quaternionf &q) { return q.vector; }, [](Quaternionf &q, Vector3f v) { q.vector = v; })
      .def_property("scalar", [](Quaternionf &q) { return q.scalar; }, [](Quaternionf &q, float s) { q.scalar = s; })
      .def("__mul__", [](Quaternionf &a, Quaternionf &b) { return multiply(a, b); })
      .def("inverted", &inverted)
      .def("normalized", &normalized)
      .def("conjugated", &conjugated)
      .def("to_matrix", &toMatrix)
      .def("transform_vector", &rotate)
      .def("transform_vector_normalized", &rotate)
      .def("axis", &axisOf)
      .def("angle",
           [](Quaternionf &q) { return Radians{2 * std::acos(std::min(1.0, std::fabs(double(q.scalar))))}; })
      .def("__repr__", [](Quaternionf &q) {
        std::string text = "Quaternion({";
        for (int i = 0; i < 3; ++i) text += (i ? ", " : "") + std::to_string(q.vector.data[i]);
        return text + "}, " + std::to_string(q.scalar) + ")";
      });
  py::implicitly_convertible<py::tuple, Quaternionf>();
}

static Vector3f translationOf(const Matrix4f &m) { return {{m.data[12], m.data[13], m.data[14]}}; }

static Matrix4f moved(Matrix4f m, const Vector3f &by) {
  std::memcpy(m.data + 12, by.data, sizeof by.data);
  return m;
}

// The first three columns, each of length 1, so that scaling drops out.
static Matrix3f rotationOf(const Matrix4f &m) {
  Matrix3f out;
  for (int column = 0; column < 3; ++column) {
    double squared = 0;
    for (int i = 0; i < 3; ++i) squared += double(m.data[column * 4 + i]) * m.data[column * 4 + i];
    for (int i = 0; i < 3; ++i) out.data[column * 3 + i] = float(m.data[column * 4 + i] / std::sqrt(squared));
  }
  return out;
}

static Matrix4f rigid(const Matrix3f &rotation, const Vector3f &translation) {
  Matrix4f out = moved(identity(), translation);
  for (int column = 0; column < 3; ++column)
    for (int i = 0; i < 3; ++i) out.data[column * 4 + i] = rotation.data[column * 3 + i];
  return out;
}

static void defineMatrices(py::module_ &m) {
  defineMatrix<Matrix3f, 3>(m, "Matrix3");
  defineMatrix<Matrix4f, 4>(m, "Matrix4")
      .def_static("from_", &rigid)
      .def_static("translation_matrix", [](Vector3f by) { return moved(identity(), by); })
      .def_property("translation", &translationOf, [](Matrix4f &a, Vector3f v) { a = moved(a, v); })
      .def("rotation", &rotationOf)
      .def("__matmul__", [](Matrix4f &a, Matrix4f &b) { return multiply(a, b); })
      .def("__mul__", [](Matrix4f &a, Matrix4f &b) { return multiply(a, b); })
      .def("transform_vector", [](Matrix4f &a, Vector3f v) { return transform(a, v, false); })
      .def("transform_point", [](Matrix4f &a, Vector3f v) { return transform(a, v, true); })
      .def("inverted_rigid", &invertedRigid);
}

using MutableImage = ImageView<2, char>;

static MutableImage imageOver(PixelFormat format, Vector2<int> size, py::buffer buffer) {
  const py::buffer_info info = buffer.request(true);
  MutableImage view{};
  view.format = unsigned(format);
  view.pixelSize = format == PixelFormat::R8Unorm ? 1 : 4;
  view.size[0] = size.data[0];
  view.size[1] = size.data[1];
  view.pixels = static_cast<char *>(info.ptr);
  view.bytes = std::size_t(info.size) * info.itemsize;
  if (view.bytes < std::size_t(view.pixelSize) * size.data[0] * size.data[1])
    throw py::value_error("the buffer is too small for the image");
  return view;
}

static void defineImages(py::module_ &m) {
  py::enum_<PixelFormat>(m, "PixelFormat")
      .value("R8_UNORM", PixelFormat::R8Unorm)
      .value("RGBA8_UNORM", PixelFormat::RGBA8Unorm)
      .value("R32UI", PixelFormat::R32UI)
      .value("R32F", PixelFormat::R32F);
  py::class_<MutableImage>(m, "MutableImageView2D")
      .def(py::init(&imageOver), py::keep_alive<1, 4>())
      .def_property_readonly("size", [](MutableImage &v) { return Vector2<int>{{v.size[0], v.size[1]}}; });
}

static void setTransformation(Object3D &object, const Matrix4f &m) {
  const Matrix3f rotation = rotationOf(m);
  object.translation = translationOf(m);
  object.rotation = fromColumns(rotation.data, rotation.data + 3, rotation.data + 6);
  for (int column = 0; column < 3; ++column) {
    const float *c = m.data + column * 4;
    object.scaling.data[column] = std::sqrt(c[0] * c[0] + c[1] * c[1] + c[2] * c[2]);
  }
  object.doSetDirty();
}

static void turn(Object3D &object, Radians angle, Vector3f axis, bool local) {
  const Quaternionf by = rotationAbout(angle, axis);
  object.rotation = normalized(local ? multiply(object.rotation, by) : multiply(by, object.rotation));
  object.doSetDirty();
}

static void move(Object3D &object, const Vector3f &by) {
  for (int i = 0; i < 3; ++i) object.translation.data[i] += by.data[i];
  object.doSetDirty();
}

static void defineObject(py::module_ &m) {
  py::class_<Object3D, AbstractObject3D, Borrowed<Object3D>> c(m, "Object3D");
  c.def_property("translation", [](Object3D &o) { return o.translation; },
                 [](Object3D &o, Vector3f v) { o.translation = v; o.doSetDirty(); });
  c.def_property("rotation", [](Object3D &o) { return o.rotation; },
                 [](Object3D &o, Quaternionf q) { o.rotation = q; o.doSetDirty(); });
  c.def_property("scaling", [](Object3D &o) { return o.scaling; },
                 [](Object3D &o, Vector3f v) { o.scaling = v; o.doSetDirty(); });
  c.def_property("transformation", [](Object3D &o) { return o.doTransformationMatrix(); }, &setTransformation);
  c.def("absolute_transformation", [](Object3D &o) { return o.doAbsoluteTransformationMatrix(); });
  c.def("reset_transformation", [](Object3D &o) { setTransformation(o, identity()); });
  c.def("translate", &move);
  c.def("translate_local", &move);  // Magnum's own, too, ignores the rotation of this kind of object
  c.def("rotate", [](Object3D &o, Radians angle, Vector3f axis) { turn(o, angle, axis, false); });
  c.def("rotate_local", [](Object3D &o, Radians angle, Vector3f axis) { turn(o, angle, axis, true); });
  const char *names[] = {"rotate_x_local", "rotate_y_local", "rotate_z_local"};
  for (int i = 0; i < 3; ++i) {
    Vector3f axis{};
    axis.data[i] = 1;
    c.def(names[i], [axis](Object3D &o, Radians angle) { turn(o, angle, axis, true); });
  }
}

static void defineSceneGraph(py::module_ &m) {
  auto scene = m.def_submodule("scenegraph");
  auto trs = scene.def_submodule("trs");
  const auto borrow = py::return_value_policy::reference;
  py::class_<AbstractObject3D, Borrowed<AbstractObject3D>>(scene, "AbstractObject3D")
      .def("transformation_matrix", [](AbstractObject3D &o) { return o.doTransformationMatrix(); })
      .def("absolute_transformation_matrix", [](AbstractObject3D &o) { return o.doAbsoluteTransformationMatrix(); })
      .def_property_readonly("parent", [](AbstractObject3D &o) { return o.doParent(); }, borrow);
  py::class_<Feature3D, Borrowed<Feature3D>>(scene, "AbstractFeature3D")
      .def_property_readonly("object", [](Feature3D &f) { return f.object; }, borrow);
  using Camera = SceneGraph::Camera<3, float>;
  using Drawable = SceneGraph::Drawable<3, float>;
  py::class_<Camera, Feature3D, Borrowed<Camera>>(scene, "Camera3D");
  py::class_<Drawable, Feature3D, Borrowed<Drawable>>(scene, "Drawable3D");
  defineObject(trs);
}

PYBIND11_MODULE(_fovea_magnum, m) {
  defineVectors(m);
  defineAngles(m);
  defineMatrices(m);
  defineQuaternion(m);
  py::class_<Range<1, float>>(m, "Range1D")
      .def(py::init([](float low, float high) { return Range<1, float>{low, high}; }), py::arg("min") = 0.f,
           py::arg("max") = 0.f)
      .def_readwrite("min", &Range<1, float>::min)
      .def_readwrite("max", &Range<1, float>::max);
  defineRange<Range2D<float>, Vector2<float>>(m, "Range2D");
  defineRange<Range2D<int>, Vector2<int>>(m, "Range2Di");
  defineRange<Range3D<float>, Vector3<float>>(m, "Range3D");
  defineImages(m);
  defineSceneGraph(m);
}
