"""The two GLSL programs: the surfaces of the meshes, and the sky behind them.

Light is worked out at the corners of the triangles: on a CPU the pixels are what costs. Both programs write colour,
depth and id in one pass. The picture is drawn upside down, so that the rows that OpenGL reads from the bottom come out
from the top.
"""

from backbone.rendering.lighting import MAX_LAMPS

SURFACE_VERTEX = """
#version 330
uniform mat4 model;
uniform mat4 view;
uniform mat4 projection;
uniform vec3 to_sun;
uniform vec3 sun;
uniform vec3 above;
uniform vec3 below;
uniform vec3 up;
uniform int lamps;
uniform vec4 lamp_position[MAX_LAMPS];  // xyz and reach
uniform vec3 lamp_colour[MAX_LAMPS];
in vec3 in_position;
in vec3 in_normal;
in vec2 in_uv;
in int in_id;
out vec3 light;
out vec2 uv;
out float depth;
flat out int id;
void main() {
    vec4 world = model * vec4(in_position, 1.0);
    vec4 eye = view * world;
    vec3 normal = normalize(mat3(model) * in_normal);  // models are moved, turned and evenly scaled only
    light = mix(below, above, 0.5 + 0.5 * dot(normal, up)) + sun * max(dot(normal, to_sun), 0.0);
    for (int i = 0; i < lamps; i++) {
        vec3 way = lamp_position[i].xyz - world.xyz;
        float far = length(way);
        float fade = max(1.0 - far / lamp_position[i].w, 0.0);
        light += lamp_colour[i] * (fade * fade * max(dot(normal, way) / max(far, 1e-4), 0.0));
    }
    uv = in_uv;
    depth = -eye.z;
    id = in_id;
    gl_Position = projection * eye;
}
""".replace("MAX_LAMPS", str(MAX_LAMPS))

SURFACE_FRAGMENT = """
#version 330
uniform sampler2D atlas;
uniform int object_id;
in vec3 light;
in vec2 uv;
in float depth;
flat in int id;
layout(location = 0) out vec4 out_colour;
layout(location = 1) out float out_depth;
layout(location = 2) out int out_id;
void main() {
    out_colour = vec4(min(texture(atlas, uv).rgb * light, 1.0), 1.0);
    out_depth = depth;
    out_id = object_id > 0 ? object_id : id;
}
"""

SKY_VERTEX = """
#version 330
uniform mat3 directions;  // world direction = directions * (x, y, 1) of the clip position
out vec3 direction;
void main() {
    vec2 corner = vec2(gl_VertexID == 1 ? 3.0 : -1.0, gl_VertexID == 2 ? 3.0 : -1.0);
    direction = directions * vec3(corner, 1.0);
    gl_Position = vec4(corner, 0.0, 1.0);
}
"""

SKY_FRAGMENT = """
#version 330
uniform vec3 zenith;
uniform vec3 horizon;
uniform vec3 ground;
uniform vec3 up;
in vec3 direction;
layout(location = 0) out vec4 out_colour;
layout(location = 1) out float out_depth;
layout(location = 2) out int out_id;
void main() {
    float height = dot(normalize(direction), up);
    vec3 colour = height > 0.0 ? mix(horizon, zenith, sqrt(height)) : mix(horizon, ground, min(-8.0 * height, 1.0));
    out_colour = vec4(colour / 255.0, 1.0);
    out_depth = 0.0;
    out_id = 0;
}
"""
