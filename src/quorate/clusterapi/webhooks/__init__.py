"""The webhooks as they are served: in a process of their own, so that a list of thousands of objects to convert delays nobody who decides."""
