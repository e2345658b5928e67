"""Drawing triangle meshes off screen: colour, depth and object ids."""
