"""Episodes of an agent in a world: run here, in processes or on Ray; recorded, filmed, resumed."""
