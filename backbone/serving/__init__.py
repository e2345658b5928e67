"""Policies over the network: the wire's codecs, a client with the interface of openpi's, and remote agents."""
