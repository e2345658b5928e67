"""What people touch: the ``fovea`` command and the Gradio demo."""
