"""LeRobot datasets: writing what was seen and done, and reading it again."""
