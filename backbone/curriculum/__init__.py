"""The generated curriculum: scenes with known answers, and the registry that further systems extend."""
