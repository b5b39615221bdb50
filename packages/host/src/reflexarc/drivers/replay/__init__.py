"""A machine that plays a script or a recording and notes what it is sent: the fake that ships."""
