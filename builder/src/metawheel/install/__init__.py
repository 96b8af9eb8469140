"""Installing the build for this machine: by pip or uv, or by what their settings say from then on."""
