// What habitat-sim's extension module and Python share of Magnum: memory layouts and the order of virtual functions.
//
// habitat-sim hands vectors, quaternions and scene nodes to Python through Magnum's own Python bindings, which no
// package on PyPI holds. The extension holds Magnum itself; so it is enough to declare, under the same C++ names, how
// its objects lie in memory and where its virtual functions stand, and to let calls reach the code inside it.
// Everything here is an interface fact of Magnum 2020-2022; nothing is its code.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace Magnum {
namespace Math {
template <class T> struct Vector2 { T data[2]; };
template <class T> struct Vector3 { T data[3]; };
template <class T> struct Vector4 { T data[4]; };
template <class T> struct Color3 : Vector3<T> {};
template <class T> struct Color4 : Vector4<T> {};
template <class T> struct Deg { T value; };
template <class T> struct Rad { T value; };
template <class T> struct Quaternion { Vector3<T> vector; T scalar; };
template <class T> struct Matrix3 { T data[9]; };   // column by column
template <class T> struct Matrix4 { T data[16]; };  // column by column
template <unsigned dimensions, class T> struct Range;
template <class T> struct Range<1, T> { T min, max; };
template <class T> struct Range2D { Vector2<T> min, max; };
template <class T> struct Range3D { Vector3<T> min, max; };
}  // namespace Math

enum class PixelFormat : unsigned { R8Unorm = 1, RGBA8Unorm = 4, R32UI = 37, R32F = 49 };

struct PixelStorage {
  int rowLength = 0, imageHeight = 0;
  int skip[3] = {0, 0, 0};
  int alignment = 4;
};

template <unsigned dimensions, class T> struct ImageView {
  PixelStorage storage;
  unsigned format, formatExtra, pixelSize;
  int size[dimensions];
  T *pixels;
  std::size_t bytes;
};

namespace SceneGraph {
using Transform = Math::Matrix4<float>;

// Only the order of the virtual functions counts; their bodies are in the extension.
template <unsigned dimensions, class T> class AbstractObject {
 public:
  virtual ~AbstractObject() {}
  virtual AbstractObject *doScene() = 0;
  virtual const AbstractObject *doScene() const = 0;
  virtual AbstractObject *doParent() = 0;
  virtual const AbstractObject *doParent() const = 0;
  virtual Transform doTransformationMatrix() const = 0;
  virtual Transform doAbsoluteTransformationMatrix() const = 0;
  virtual std::vector<Transform> doTransformationMatrices(
      const std::vector<std::reference_wrapper<AbstractObject>> &, const Transform &) const = 0;
  virtual bool doIsDirty() const = 0;
  virtual void doSetDirty() = 0;
  virtual void doSetClean() = 0;
  virtual void doSetClean(const std::vector<std::reference_wrapper<AbstractObject>> &) = 0;
  void *firstFeature, *lastFeature;
};

template <class T> class BasicTranslationRotationScalingTransformation3D {
 public:
  virtual void doResetTransformation() = 0;  // never called through here; it makes room for the table's pointer
  Math::Vector3<T> translation;
  Math::Quaternion<T> rotation;
  Math::Vector3<T> scaling;
};

template <class Transformation> class Object : public AbstractObject<3, float>, public Transformation {};

template <unsigned dimensions, class T> class AbstractFeature {
 public:
  virtual ~AbstractFeature() {}
  AbstractObject<dimensions, T> *object;
  void *previous, *next;
  unsigned char cachedTransformations;
};

template <unsigned dimensions, class T> class Camera : public AbstractFeature<dimensions, T> {};
template <unsigned dimensions, class T> class Drawable : public AbstractFeature<dimensions, T> {};
}  // namespace SceneGraph
}  // namespace Magnum

using Vector3f = Magnum::Math::Vector3<float>;
using Quaternionf = Magnum::Math::Quaternion<float>;
using Matrix3f = Magnum::Math::Matrix3<float>;
using Matrix4f = Magnum::Math::Matrix4<float>;
using Degrees = Magnum::Math::Deg<double>;
using Radians = Magnum::Math::Rad<double>;
using Object3D =
    Magnum::SceneGraph::Object<Magnum::SceneGraph::BasicTranslationRotationScalingTransformation3D<float>>;
using AbstractObject3D = Magnum::SceneGraph::AbstractObject<3, float>;
using Feature3D = Magnum::SceneGraph::AbstractFeature<3, float>;
