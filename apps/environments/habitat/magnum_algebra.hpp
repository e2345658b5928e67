// Quaternions and matrices, in float as Magnum computes them.
#pragma once

#include <cmath>

#include "magnum_layouts.hpp"

inline Quaternionf multiply(const Quaternionf &a, const Quaternionf &b) {
  const float *u = a.vector.data, *v = b.vector.data;
  Quaternionf out;
  for (int i = 0; i < 3; ++i) {
    const int j = (i + 1) % 3, k = (i + 2) % 3;
    out.vector.data[i] = a.scalar * v[i] + b.scalar * u[i] + u[j] * v[k] - u[k] * v[j];
  }
  out.scalar = a.scalar * b.scalar - (u[0] * v[0] + u[1] * v[1] + u[2] * v[2]);
  return out;
}

inline float squaredLength(const Quaternionf &q) {
  const float *v = q.vector.data;
  return q.scalar * q.scalar + v[0] * v[0] + v[1] * v[1] + v[2] * v[2];
}

inline Quaternionf normalized(Quaternionf q) {
  const float length = std::sqrt(squaredLength(q));
  for (float &x : q.vector.data) x /= length;
  q.scalar /= length;
  return q;
}

inline Quaternionf conjugated(Quaternionf q) {
  for (float &x : q.vector.data) x = -x;
  return q;
}

inline Quaternionf inverted(Quaternionf q) {
  const float squared = squaredLength(q);
  for (float &x : q.vector.data) x /= -squared;
  q.scalar /= squared;
  return q;
}

inline Vector3f rotate(const Quaternionf &q, const Vector3f &v) {
  return multiply(multiply(q, Quaternionf{v, 0}), inverted(q)).vector;
}

inline Quaternionf rotationAbout(Radians angle, const Vector3f &axis) {
  const float sine = float(std::sin(angle.value / 2));
  Quaternionf q;
  for (int i = 0; i < 3; ++i) q.vector.data[i] = axis.data[i] * sine;
  q.scalar = float(std::cos(angle.value / 2));
  return q;
}

inline Matrix3f toMatrix(const Quaternionf &q) {
  const float x = q.vector.data[0], y = q.vector.data[1], z = q.vector.data[2], w = q.scalar;
  return Matrix3f{{1 - 2 * (y * y + z * z), 2 * (x * y + z * w), 2 * (x * z - y * w),    // first column
                   2 * (x * y - z * w), 1 - 2 * (x * x + z * z), 2 * (y * z + x * w),    // second
                   2 * (x * z + y * w), 2 * (y * z - x * w), 1 - 2 * (x * x + y * y)}};  // third
}

// From three orthonormal columns, by the branch that divides by the largest number.
inline Quaternionf fromColumns(const float *c0, const float *c1, const float *c2) {
  const float trace = c0[0] + c1[1] + c2[2];
  if (trace > 0) {
    const float k = std::sqrt(trace + 1) * 2;
    return {{{(c1[2] - c2[1]) / k, (c2[0] - c0[2]) / k, (c0[1] - c1[0]) / k}}, k / 4};
  }
  if (c0[0] > c1[1] && c0[0] > c2[2]) {
    const float k = std::sqrt(1 + c0[0] - c1[1] - c2[2]) * 2;
    return {{{k / 4, (c1[0] + c0[1]) / k, (c2[0] + c0[2]) / k}}, (c1[2] - c2[1]) / k};
  }
  if (c1[1] > c2[2]) {
    const float k = std::sqrt(1 + c1[1] - c0[0] - c2[2]) * 2;
    return {{{(c1[0] + c0[1]) / k, k / 4, (c2[1] + c1[2]) / k}}, (c2[0] - c0[2]) / k};
  }
  const float k = std::sqrt(1 + c2[2] - c0[0] - c1[1]) * 2;
  return {{{(c2[0] + c0[2]) / k, (c2[1] + c1[2]) / k, k / 4}}, (c0[1] - c1[0]) / k};
}

inline Matrix4f identity() {
  Matrix4f m{};
  for (int i = 0; i < 4; ++i) m.data[i * 5] = 1;
  return m;
}

inline Matrix4f multiply(const Matrix4f &a, const Matrix4f &b) {
  Matrix4f out{};
  for (int column = 0; column < 4; ++column)
    for (int row = 0; row < 4; ++row)
      for (int k = 0; k < 4; ++k) out.data[column * 4 + row] += a.data[k * 4 + row] * b.data[column * 4 + k];
  return out;
}

// The rotated vector, and with ``translated`` the moved point.
inline Vector3f transform(const Matrix4f &m, const Vector3f &v, bool translated) {
  Vector3f out;
  for (int i = 0; i < 3; ++i) {
    out.data[i] = m.data[i] * v.data[0] + m.data[4 + i] * v.data[1] + m.data[8 + i] * v.data[2];
    if (translated) out.data[i] += m.data[12 + i];
  }
  return out;
}

// The inverse of a matrix that only turns and moves.
inline Matrix4f invertedRigid(const Matrix4f &m) {
  Matrix4f out = identity();
  for (int i = 0; i < 3; ++i) {
    float moved = 0;
    for (int k = 0; k < 3; ++k) {
      out.data[k * 4 + i] = m.data[i * 4 + k];
      moved += m.data[i * 4 + k] * m.data[12 + k];
    }
    out.data[12 + i] = -moved;
  }
  return out;
}
