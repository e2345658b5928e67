"""The Gradio demo: one loaded model, a tab for each system."""
