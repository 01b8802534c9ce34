"""What quorate serves and takes: its definitions and permissions, what is filled in, and what is wrong with an object. Pure."""
